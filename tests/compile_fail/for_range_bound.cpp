// Passes a float as the bound of a loop.
// expect: for_range needs integer scalars as bounds and step
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BN);

void kernel(Scalar<float> n) {
  for_range(BN, n, [&](auto) {});
}
