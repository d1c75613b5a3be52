// Calls expects, device_assert and device_print without their message.
// expect: device_assert needs a message: device_assert(x >= 0, "not negative")
// expect: expects needs a message: expects(n > 0, "rows")
// expect: device_print needs a message first: device_print("x =", x)
// expect: the message of expects must be a string literal: it is stored with the kernel
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
