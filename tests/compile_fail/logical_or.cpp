// Uses || on tiles.
// expect: || does not work on tiles, because both sides are always computed: use |
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<float, BM> x, Tile<bool, BM> y) { auto either = x > 0 || y; }
