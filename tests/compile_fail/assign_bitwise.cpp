// Applies a bitwise operator to floats in an assign.
#include <kiln/jit/runtime/assign/assign.h>
using namespace kiln;

void f(Stream& stream, TensorView<float, 1> x) {
  assign(stream, x, (x & 3) * 2); // expect: bitwise operators and shifts need integers or bool: use bitcast
                                  // to reach the bits of a float
}
