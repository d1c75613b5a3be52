// Reduces a dimension that the tile does not have.
// expect: the tile has no such dimension or axis
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

void kernel(Tile<float, BM, BN> x) {
  auto y = sum(x, BK);
  auto z = y * 2;
}
