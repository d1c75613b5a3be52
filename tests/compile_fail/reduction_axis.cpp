// Reduces an axis that the tile does not have.
// expect: the tile has no such dimension or axis
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(Tile<float, BM, BN> x) { auto y = max(x, axis<2>); }
