// Constant dimensions that are fractions, or too large.
// expect: a constant dimension is an integer: write 16_c, 0x10_c or 1'024_c
// expect: a constant dimension is an integer: write 16_c, 0x10_c or 1'024_c
// expect: a constant dimension must fit into 64 bits
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel() {
  zeros<float>(1.5_c);
  zeros<float>(1e3_c);
  zeros<float>(99999999999999999999_c);
}
