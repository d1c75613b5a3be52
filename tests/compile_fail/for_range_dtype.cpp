// Returns another dtype from the body of a loop.
// expect: the body of for_range must return the next state, of the initial state's dtype and dimensions
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, Offset<BM> m) {
  auto count = for_range(BN, x.cols(), zeros<int>(BM),
                         [&](auto n, auto count) { return count + sum(x.tile(m, n).load(), BN); });
}
