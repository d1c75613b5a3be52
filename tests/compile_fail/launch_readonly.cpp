// Passes const elements to a View that can be written.
// expect: the argument's elements are const and the View parameter's are not
#include <kiln/kiln.h>

using namespace kiln;

void call(Stream& stream, const Kernel<View<float, 1>>& k, TensorView<const float, 1> x) {
  k.launch(stream, {}, x);
}
