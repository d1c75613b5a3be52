// Applies functions of the standard library to tiles, and uses a tile as a number of the host.
// expect: a tile is not a number while recording: for std::exp and similar functions write kiln::exp
// expect: (and for std::max and std::min kiln::max and kiln::min)
#include <kiln/dsl/language.h>

#include <algorithm>
#include <cmath>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<float, BM> x) {
  auto a = std::exp(x);
  auto b = std::max(x, x);
}
