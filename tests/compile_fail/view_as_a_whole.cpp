// Loads and stores views without a tile.
// expect: a view is not loaded as a whole: write view.tile(m, k).load()
// expect: a view is not stored as a whole: write view.tile(m, k).store(x)
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(View<float, 2> x) {
  auto a = x.slice(1, 0, 3).load();
  x.store(1.0f);
}
