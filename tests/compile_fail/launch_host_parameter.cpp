// A kernel that takes a plain number, and its launch, which says nothing more.
// expect: a kernel's number is a parameter of type Scalar<float>, Scalar<int> ..., not float or int
// expect: a kernel's pointer is a parameter of type raw::Ptr<T>, not T*
#include <kiln/kiln.h>

using namespace kiln;

void call(Stream& stream, const TensorView<float, 1>& x, float* p) {
  kernel("scale", [](View<float, 1>, float) {}).launch(stream, {}, x, 3.0f);
  kernel("scale", [](View<float, 1>, float*) {}).launch(stream, {}, x, p);
}
