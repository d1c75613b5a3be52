// Passes a mask of other dimensions.
// expect: the mask's dimensions must be those of the tile, or 1
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<float, 2> x, Offset<BM> m, Offset<BN> n, Tile<bool, BN, BM> mask) {
  x.tile(m, n).store(1, mask);
}
