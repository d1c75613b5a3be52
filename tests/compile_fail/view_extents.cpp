// Gives a view of a pointer an extent that is no integer.
// expect: the extents and strides of raw::view are integers: raw::view(p, {rows, cols})
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(raw::Ptr<float> p) { auto a = raw::view(p, {3.5}); }
