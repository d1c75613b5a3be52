// Returns another type than the state from the body of a loop.
// expect: the body of for_range must return the next state, of the initial state's dtype and dimensions
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, Offset<BM> m) {
  auto acc = for_range(BN, x.cols(), zeros<float>(BM),
                       [&](auto n, auto acc) { return expand<1>(acc) + x.tile(m, n).load(); });
  auto y = acc * 2;
}
