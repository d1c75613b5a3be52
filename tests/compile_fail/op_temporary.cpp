// Passes a tensor to an op that is destroyed before the op runs.
#include <kiln/kiln.h>
using namespace kiln;

void f(Stream& stream, Tensor<float, 2>& y) {
  ops::softmax(stream, Tensor<float, 2>::zeros({2, 3}),
               y); // expect: a temporary Tensor is gone before the op runs
}
