// Passes a lambda with a capture to map.
#include <kiln/jit/runtime/assign/assign.h>
using namespace kiln;

void f(Stream& stream, TensorView<float, 1> x, float k) {
  assign(
      stream, x,
      map([k](auto t) { return t * k; }, x)); // expect: the function of map must have no data, like a lambda
                                              // without captures: pass values as further arguments of map
}
