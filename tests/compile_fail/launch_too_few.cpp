// Omits the last argument of a launch.
// expect: too few arguments: the kernel has more parameters
#include <kiln/kiln.h>

using namespace kiln;

void call(Stream& stream, const Kernel<View<float, 1>, Scalar<float>>& k, TensorView<float, 1> x) {
  k.launch(stream, {}, x);
}
