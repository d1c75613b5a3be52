// Uses a view as a condition, a tile, and a stored value.
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, View<float, 2> y, Offset<BM> m, Offset<BN> n) {
  Tile t = x;
  y.tile(m, n).store(x);
}
