// Multiplies and divides a dimension by a number.
// expect: write BM * 2_c or BM / 2_c
// expect: write BM * 2_c or BM / 2_c
// expect: write BM * 2_c or BM / 2_c
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel() {
  auto a = zeros<float>(BM * 2);
  auto b = zeros<float>(2 * BM);
  auto c = zeros<float>(BM / 2);
}
