// Stores a tile of other dimensions, with the axes mixed up.
// expect: the stored value's dimensions must be those of the tile, or 1
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<float, 2> x, Offset<BM> m, Offset<BN> n, Tile<float, BM, BN> value) {
  x.tile(n, m).store(value);
}
