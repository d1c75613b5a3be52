// Uses a whole-tensor expression as a native condition.
#include <kiln/jit/runtime/assign/assign.h>
using namespace kiln;

bool f(TensorView<float, 1> x) {
  return (x > 0) ? true
                 : false; // expect: a whole-tensor expression has no truth value: assign it to a bool tensor
}
