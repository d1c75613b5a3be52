// Passes an accumulator of another shape to dot.
// expect: dot: the accumulator must have the product's dimensions
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

void kernel(Tile<bf16, BM, BK> a, Tile<bf16, BK, BN> b, Tile<float, BN, BM> acc) {
  Tile c = dot(a, b, acc);
  Tile d = relu(c);
}
