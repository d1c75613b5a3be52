// Uses a dimension as the bound of a native loop and as a number.
// expect: a dimension is not a number: write value(BM)
// expect: a dimension is not a number: write value(BM)
// expect: a dimension is not a number: write value(BM)
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel() {
  for (int j = 0; j < BM; ++j) {
  }
  if (BM == 64) return;
  int n = BM;
}
