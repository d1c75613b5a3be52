// Computes with a tile of a view that is not loaded.
// expect: a tile of a view is not loaded yet: write view.tile(...).load()
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<const float, 1> x, View<float, 1> y, Offset<BM> m) {
  auto t = exp(x.tile(m) * 2) + 1;
  y.tile(m).store(t);
}
