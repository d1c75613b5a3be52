// Prints tiles and scalars with printf.
// expect: write device_print("x =", x)
// expect: write device_print("x =", x)
// expect: write device_print("x =", x)
#include <kiln/dsl/language.h>

#include <cstdio>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<float, BM> x, Scalar<float> s) {
  printf("%f", x);
  std::printf("%f", s + 1);
  std::fprintf(stderr, "%f", s);
}
