// Makes a mistake in the body of a loop.
// expect: the operands' dimensions differ: they must be the same, or 1
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, Offset<BM> m) {
  auto acc =
      for_range(BN, x.cols(), zeros<float>(BM), [&](auto n, auto acc) { return acc + x.tile(m, n).load(); });
  auto y = acc * 2;
}
