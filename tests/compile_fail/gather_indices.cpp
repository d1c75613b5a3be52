// Gathers by floats, and by a tile of indices that does not fit.
// expect: gather: the indices must be integers
// expect: gather: the indices must have the tile's dimensions (or 1) except along the axis
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(K);

void kernel(View<const float, 2> x, View<const int, 2> at, Offset<BM> m, Offset<BN> n, Offset<K> k) {
  Tile t = x.tile(m, n).load();
  gather(t, t, BN);
  gather(t, at.tile(k, k).load(), BN);
}
