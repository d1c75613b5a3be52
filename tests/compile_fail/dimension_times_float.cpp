// Divides a number by a dimension.
// expect: or dim_size(BM) for this size as a scalar of the kernel
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<float, BM> x) { auto y = x * (1.0f / BM); }
