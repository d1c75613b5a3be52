// Applies a function of floats to integers in an assign.
#include <kiln/jit/runtime/assign/assign.h>
using namespace kiln;

void f(Stream& stream, TensorView<int, 1> x, TensorView<float, 1> out) {
  assign(stream, out, exp(x) + 1); // expect: exp needs a tensor of floats: write cast<float>(x) first
}
