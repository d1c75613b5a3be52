// Multiplies integers with floats.
// expect: dot needs two tiles of one dtype: cast one of them
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

void kernel(Tile<float, BM, BK> a, Tile<std::int8_t, BK, BN> b) {
  auto c = dot(a, b);
  auto d = exp(c) * 2;
}
