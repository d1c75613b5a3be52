// Passes floats as a mask.
// expect: a mask must be a tile of bool: write a comparison
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<float, 2> x, Offset<BM> m, Offset<BN> n, Tile<float, BM, BN> mask) {
  auto t = x.tile(m, n).load(mask);
  x.tile(m, n).store(t + 1);
}
