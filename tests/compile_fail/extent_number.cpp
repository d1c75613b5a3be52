// Passes sizes as numbers, which the C++ compiler would have to know.
// expect: a tile's extents are dimensions: a KILN_DIM, or a constant such as 64_c
// expect: arange takes a dimension: a KILN_DIM, or a constant such as 64_c
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel() {
  auto a = zeros<float>(BM, 64) + 1;
  auto b = arange(0, 64) + 1;
}
