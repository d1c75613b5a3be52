// Applies a function of floats to integers.
// expect: exp needs a tile of floats: write cast<float>(x) first
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<int, BM> x) { auto y = exp(x) * 2 + 1; }
