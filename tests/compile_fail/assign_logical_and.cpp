// Uses && in an expression of assign.
#include <kiln/jit/runtime/assign/assign.h>
using namespace kiln;

void f(Stream& stream, TensorView<float, 1> x, TensorView<bool, 1> out) {
  assign(stream, out,
         x > 0 &&
             x < 1); // expect: && does not work on tensors, because both sides are always computed: use &
}
