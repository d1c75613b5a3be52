// Assigns to a read-only output.
#include <kiln/jit/runtime/assign/assign.h>
using namespace kiln;

void f(Stream& stream, TensorView<const float, 1> x) {
  assign(stream, x,
         x + 1); // expect: the output of assign is read-only: pass a TensorView<T, Rank> with a mutable T
}
