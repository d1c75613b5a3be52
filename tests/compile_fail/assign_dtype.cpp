// Assigns floats to an output of integers.
#include <kiln/jit/runtime/assign/assign.h>
using namespace kiln;

void f(Stream& stream, TensorView<float, 2> x, TensorView<int, 2> out) {
  assign(stream, out, x * 2); // expect: the expression's dtype is not the output's: write cast<T>(expression)
}
