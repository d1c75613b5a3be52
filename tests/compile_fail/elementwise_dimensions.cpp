// Adds tiles of different dimensions.
// expect: the operands' dimensions differ: they must be the same, or 1
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(Tile<float, BM, BN> x, Tile<float, BM> y) {
  auto z = x * y;
  auto u = exp(z) + x;
}
