// Assigns an expression with more axes than the output.
#include <kiln/jit/runtime/assign/assign.h>
using namespace kiln;

void f(Stream& stream, TensorView<float, 2> x, TensorView<float, 1> out) {
  assign(
      stream, out,
      -x); // expect: the expression has more axes than the output, and operands only broadcast to the output
}
