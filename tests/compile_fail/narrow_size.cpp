// Gives the size of a part as a plain number.
// expect: a tile's extents are dimensions: a KILN_DIM, or a constant such as 64_c
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<const float, 1> x, Offset<BM> m) { narrow(x.tile(m).load(), 0, 8, BM); }
