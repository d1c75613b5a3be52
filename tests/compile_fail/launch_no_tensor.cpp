// Passes a pointer to a View.
// expect: a View parameter takes a TensorView or a Tensor
#include <kiln/kiln.h>

using namespace kiln;

void call(Stream& stream, const Kernel<View<float, 1>>& k, float* x) { k.launch(stream, {}, x); }
