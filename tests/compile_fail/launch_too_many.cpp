// Passes one argument too many to a launch.
// expect: too many arguments: the kernel has fewer parameters
#include <kiln/kiln.h>

using namespace kiln;

void call(Stream& stream, const Kernel<View<float, 1>>& k, TensorView<float, 1> x) {
  k.launch(stream, {}, x, 1.0f);
}
