// Declares a Var without a value, and indexes one.
// expect: a Var needs an initial value: Var<float> best = 0
// expect: a tile is not indexed with []
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel() {
  Var<float> best;
  Var sums = zeros<float>(BM);
  sums[0];
}
