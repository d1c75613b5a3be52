// Takes the maximum of bools atomically, through a pointer.
// expect: bool has no atomic_max: use atomic_or
#include <kiln/dsl/language.h>

using namespace kiln;

void kernel(raw::Ptr<bool> x) { raw::atomic_max(x, true); }
