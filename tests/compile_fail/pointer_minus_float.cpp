// Subtracts a float from a pointer.
// expect: a pointer offset must be an integer: it counts elements
#include <kiln/kiln.h>

using namespace kiln;

void kernel_body(raw::Ptr<float> p) { raw::store(p - 2.5f, 1.0f); }
