// Splits a tile whose last extent is not two.
// expect: split: the last axis must be 2_c
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<const float, 1> x, View<float, 1> y, Offset<BM> m) {
  auto [a, b] = split(x.tile(m).load());
  y.tile(m).store(a + b);
}
