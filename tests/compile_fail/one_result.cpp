// Unpacks the one tile that a function returns.
// expect: this function returns one tile: write auto v = sort(x, BN)
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, Offset<BM> m, Offset<BN> n) {
  Tile t = x.tile(m, n).load();
  auto [v, at] = sort(t, BN);
}
