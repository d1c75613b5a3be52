// Puts dimensions in braces.
// expect: dimensions are not in braces: write zeros<float>(BM, BN), reshape(x, BM, BN)
// expect: dimensions are not in braces: write zeros<float>(BM, BN), reshape(x, BM, BN)
// expect: dimensions are not in braces: write zeros<float>(BM, BN), reshape(x, BM, BN)
// expect: dimensions are not in braces: write zeros<float>(BM, BN), reshape(x, BM, BN)
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, Offset<BM> m, Offset<BN> n) {
  Tile t = x.tile(m, n).load();
  zeros<float>({BM, BN});
  full(0, {BM, BN});
  reshape(t, {BM * BN});
  broadcast(x.rows(), {BM, BN});
}
