// Passes doubles to a View of floats.
// expect: the argument's element type is not that of the View parameter
#include <kiln/kiln.h>

using namespace kiln;

void call(Stream& stream, const Kernel<View<const float, 1>>& k, TensorView<double, 1> x) {
  k.launch(stream, {}, x);
}
