// Declares a tile with other dimensions than its expression has.
// expect: the expression's dimensions are not the tile's
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(Tile<float, BM, BN> x) { Tile<float, BN, BM> y = x * 2; }
