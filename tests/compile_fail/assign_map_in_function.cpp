// Applies a function of floats to integers inside a function of map.
#include <kiln/dsl/functions.h>
#include <kiln/jit/runtime/assign/assign.h>
using namespace kiln;

void f(Stream& stream, TensorView<int, 1> x, TensorView<float, 1> out) {
  assign(stream, out,
         map([](auto t) { return sqrt(t); },
             x)); // expect: sqrt needs a tile of floats: write cast<float>(x) first
}
