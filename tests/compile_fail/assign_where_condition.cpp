// Passes numbers as the condition of where in an assign.
#include <kiln/jit/runtime/assign/assign.h>
using namespace kiln;

void f(Stream& stream, TensorView<float, 1> x) {
  assign(stream, x,
         where(x, 1, x)); // expect: the condition of where must be a tensor of bool: compare with != 0
}
