// Applies std::max to two tiles of the same type.
// expect: (and for std::max and std::min kiln::max and kiln::min)
#include <kiln/dsl/language.h>

#include <algorithm>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<float, BM> x) { auto a = std::max(x, x); }
