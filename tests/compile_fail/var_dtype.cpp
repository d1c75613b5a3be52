// Assigns another dtype to a Var.
// expect: a Var keeps its dtype: write cast<T>(value)
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(Scalar<float> x) {
  Var<int> v = 0;
  v += x;
}
