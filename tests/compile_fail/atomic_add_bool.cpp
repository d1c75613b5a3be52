// Adds to elements of bool atomically.
// expect: bool has no atomic_add: use atomic_or or atomic_xor, or a view of integers
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<bool, 1> x, Offset<BM> m) { x.tile(m).atomic_add(true); }
