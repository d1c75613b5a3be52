// Declares a dimension inside a function.
// expect: KILN_DIM belongs at namespace scope
// expect: static data member
// expect: static data member
// expect: inline
#include <kiln/dsl/language.h>

void kernel() { KILN_DIM(BK); }
