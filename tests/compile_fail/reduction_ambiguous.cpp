// Reduces a dimension that the tile has twice.
// expect: the dimension occurs twice in the tile: name the axis, as in axis<1>
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<float, BM, BM> x) { auto y = sum(x, BM); }
