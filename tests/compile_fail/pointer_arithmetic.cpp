// A pointer multiplied.
// expect: pointers only add and subtract integer offsets
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(raw::Ptr<float> p) { auto q = p * 2; }
