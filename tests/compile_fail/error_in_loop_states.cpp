// Makes a mistake in the body of a loop with two states.
// expect: the operands' dimensions differ: they must be the same, or 1
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, Offset<BM> m) {
  auto [a, b] = for_range(BN, x.cols(), state(zeros<float>(BM), 0.0f),
                          [&](auto n, auto a, auto b) { return state(a + x.tile(m, n).load(), b); });
}
