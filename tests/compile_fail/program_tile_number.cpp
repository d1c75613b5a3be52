// Passes sizes as numbers to program_tile, which the C++ compiler would have to know.
// expect: program_tile takes dimensions: a KILN_DIM, or a constant such as 64_c
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<float, 2> y) {
  auto [m, n] = program_tile(y, BM, 64);
  y.tile(m, n).store(zeros<float>(BM, 64_c));
}
