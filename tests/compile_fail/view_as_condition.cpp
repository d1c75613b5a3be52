// Uses a view as a native condition.
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(View<const float, 2> x) {
  if (x) return;
}
