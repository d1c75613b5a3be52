// Passes a matrix to a View of one axis.
// expect: the argument's number of dimensions is not that of the View parameter
#include <kiln/kiln.h>

using namespace kiln;

void call(Stream& stream, const Kernel<View<float, 1>>& k, TensorView<float, 2> x) {
  k.launch(stream, {}, x);
}
