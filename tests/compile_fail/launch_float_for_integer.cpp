// Passes a floating-point number to a Scalar of integers.
// expect: a Scalar of integers takes no floating-point number: convert it
#include <kiln/kiln.h>

using namespace kiln;

void call(Stream& stream, const Kernel<Scalar<std::int32_t>>& k) { k.launch(stream, {}, 1.0f); }
