// Returns different dimensions from the branches of if_else.
// expect: both branches of if_else must return the same dtype and dimensions, or nothing
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(Scalar<int> i, Tile<float, BM> x, Tile<float, BN> y) {
  auto z = if_else(i > 0, [&] { return x; }, [&] { return y; });
}
