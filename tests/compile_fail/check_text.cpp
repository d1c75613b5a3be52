// Checks and output without their text.
// expect: device_assert takes a text: device_assert(x >= 0, "not negative")
// expect: expects takes a text: expects(n > 0, "rows")
// expect: device_print takes a text first: device_print("x =", x)
// expect: the text of expects is a string literal: it is kept with the kernel
#include <kiln/dsl/language.h>

#include <string>

using namespace kiln;
KILN_DIM(BM);

void kernel(Scalar<int> n, Tile<float, BM> x) {
  device_assert(x > 0);
  expects(n > 0);
  device_print(x);
  expects(n > 1, std::string("more"));
}
