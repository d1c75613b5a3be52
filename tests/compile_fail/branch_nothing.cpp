// Returns a value from one branch only, in both orders, and from the body of if_then.
// expect: both branches of if_else must return the same dtype and dimensions, or nothing
// expect: both branches of if_else must return the same dtype and dimensions, or nothing
// expect: the result of if_then's body is not used: write if_else, or return nothing
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Scalar<int> i, Tile<float, BM> x) {
  auto y = if_else(i > 0, [&] { return x; }, [&] {}) * 2;
  if_else(i > 0, [&] {}, [&] { return x; });
  if_then(i > 0, [&] { return x; });
}
