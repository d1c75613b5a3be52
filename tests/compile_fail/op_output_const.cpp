// Passes a read-only tensor as the result of an op.
#include <kiln/kiln.h>
using namespace kiln;

void f(Stream& stream, TensorView<float, 2> x, TensorView<const float, 2> y) {
  ops::softmax(stream, x, y); // expect: the op writes to this tensor, and its elements are const
}
