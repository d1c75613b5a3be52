// Launches kernels that take a plain number and a plain pointer; the launch adds no second error.
// expect: a kernel takes numbers as Scalar<float>, Scalar<int> and so on, not as float or int
// expect: a kernel takes pointers as raw::Ptr<T>, not as T*
#include <kiln/kiln.h>

using namespace kiln;

void call(Stream& stream, const TensorView<float, 1>& x, float* p) {
  kernel("scale", [](View<float, 1>, float) {}).launch(stream, {}, x, 3.0f);
  kernel("scale", [](View<float, 1>, float*) {}).launch(stream, {}, x, p);
}
