// Shifts a tile of floats.
// expect: bitwise operators and shifts need integers or bool
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<float, BM> x) { auto y = x << 2; }
