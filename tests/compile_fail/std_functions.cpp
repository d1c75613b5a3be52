// Applies a function of the standard library to a tile.
// expect: a tile is not a number while recording: for std::exp and similar functions write kiln::exp
#include <kiln/dsl/language.h>

#include <cmath>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<float, BM> x) { auto a = std::exp(x); }
