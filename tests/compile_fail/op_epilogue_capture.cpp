// Passes an epilogue with a capture to matmul.
#include <kiln/kiln.h>
using namespace kiln;

void f(Stream& stream, Tensor<float, 2>& a, float k) {
  ops::matmul(stream, a, a, a, [k](auto sum, auto) {
    return sum * k;
  }); // expect: the epilogue of matmul has no captures: pass tensors after it, which it gets as views
}
