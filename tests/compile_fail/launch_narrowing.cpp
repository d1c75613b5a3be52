// Passes a double to a Scalar of float.
// expect: a double would lose digits in this Scalar parameter: write 0.5f, or convert
#include <kiln/kiln.h>

using namespace kiln;

void call(Stream& stream, const Kernel<Scalar<float>>& k) { k.launch(stream, {}, 0.1); }
