// Uses an expression as a number of the host.
// expect: convert it with cast<float>(x), keep it with auto or Scalar
// expect: convert it with cast<float>(x), keep it with auto or Scalar
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<float, BM> x, Scalar<float> s) {
  float a = s + 1;
  bool b = x > 0;
}
