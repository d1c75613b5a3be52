// Multiplies a raw pointer by a number.
// expect: pointers support only + and - with integer offsets
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(raw::Ptr<float> p) { auto q = p * 2; }
