// Calls assign with outputs and operands that are not tensors or not variables, and without a stream.
// expect: the output of assign is a TensorView or a Tensor: write TensorView(x)
// expect: assign computes with TensorViews, Tensors and numbers: write TensorView(x)
// expect: the output of assign is a const or temporary Tensor: keep it in a variable without const
// expect: assign begins with the stream: assign(stream, out, expression)
#include <kiln/kiln.h>

#include <vector>

using namespace kiln;

void call(Stream& stream, std::vector<float>& v, const TensorView<float, 1>& x) {
  assign(stream, v, x * 2);
  assign(stream, x, v);
  assign(stream, Tensor<float, 1>::zeros({4}), x * 2);
  assign(x, x * 2);
}
