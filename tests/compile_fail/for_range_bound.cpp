// A loop bound that is a float.
// expect: for_range needs integer scalars as bounds and step
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BN);

void kernel(Scalar<float> n) {
  for_range(BN, n, [&](auto) {});
}
