// Makes a state of a single value.
// expect: a single value is a state by itself: pass x, not state(x)
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, Offset<BM> m) {
  auto first = state(zeros<float>(BM));
  auto acc =
      for_range(BN, x.cols(), first, [&](auto n, auto acc) { return acc + sum(x.tile(m, n).load(), BN); });
}
