// Applies std::max, std::min and std::clamp to a tile and a number.
// expect: for tiles and scalars write kiln::max
// expect: for tiles and scalars write kiln::min
// expect: for tiles and scalars write kiln::clamp
#include <kiln/dsl/language.h>

#include <algorithm>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<float, BM> x, Scalar<float> s) {
  auto a = std::max(x, 0.0f);
  auto b = std::min(0.0f, s);
  auto c = std::clamp(x, 0.0f, 1.0f);
}
