// Passes a temporary Tensor to a launch.
// expect: a temporary Tensor is gone before the kernel runs: keep it in a variable
#include <kiln/kiln.h>

using namespace kiln;

void call(Stream& stream, const Kernel<View<float, 1>>& k) {
  k.launch(stream, {}, (Tensor<float, 1>::empty({16})));
}
