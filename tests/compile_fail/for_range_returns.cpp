// Returns a value from the body of a loop without a state, and none from one with a state.
// expect: the body of for_range must return the next state, of the initial state's dtype and dimensions
// expect: the body's result is not used: pass a state, for_range(BN, n, state, body), or return nothing
// expect: the body's result is not used: pass a state, for_range(BN, n, state, body), or return nothing
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Scalar<int> n, Tile<float, BM> x) {
  for_range(BM, n, [&](auto) { return x * 2; });
  for_range(0, n, 1, [&](auto) { return x * 2; });
  auto y = for_range(BM, n, x, [&](auto, auto) {}) * 2;
}
