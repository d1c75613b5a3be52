// Computes with views, and with a tile of a view as a number of the host.
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a tile of a view is not loaded yet: write view.tile(...).load()
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(View<float, 1> x, View<float, 1> y) {
  auto a = x + y;
  auto b = x * 2;
  float c = y.at(0);
}
