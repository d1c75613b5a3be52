// Passes a pointer to the wrong type to a raw::Ptr.
// expect: the pointer's element type is not that of the raw::Ptr parameter
#include <kiln/kiln.h>

using namespace kiln;

void call(Stream& stream, const Kernel<raw::Ptr<float>>& k, double* p) { k.launch(stream, {}, p); }
