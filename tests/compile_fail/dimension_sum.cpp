// Adds a dimension and a number.
// expect: declare another KILN_DIM for this size, or write value(BM)
// expect: declare another KILN_DIM for this size, or write value(BM)
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel() {
  auto a = zeros<float>(BM + 1);
  auto b = zeros<float>(BM - BN);
}
