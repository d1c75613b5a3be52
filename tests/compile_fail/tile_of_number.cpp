// Initialises a tile with a number, and declares one without a value.
// expect: a number is not a tile: write zeros<float>(BM, BN), or full(2.5f, BM, BN)
// expect: a tile needs an initial value, such as zeros<float>(BM, BN); use Var
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel() {
  Tile<float, BM, BN> a = 0;
  Scalar<float> b;
  Tile c = a + b;
}
