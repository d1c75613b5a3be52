// Calls functions that work along an axis without the axis.
// expect: the axis is missing: give a dimension of the tile, as in sort(x, BN), or axis<1>
// expect: the axis is missing: give a dimension of the tile, as in sort(x, BN), or axis<1>
// expect: the axis is missing: give a dimension of the tile, as in sort(x, BN), or axis<1>
// expect: the axis is missing: give a dimension of the tile, as in sort(x, BN), or axis<1>
// expect: the axis is missing: give a dimension of the tile, as in sort(x, BN), or axis<1>
// expect: the axis is missing: give a dimension of the tile, as in sort(x, BN), or axis<1>
// expect: the axis is missing: give a dimension of the tile, as in sort(x, BN), or axis<1>
// expect: the axis is missing: give a dimension of the tile, as in sort(x, BN), or axis<1>
// expect: the axis is missing: give a dimension of the tile, as in sort(x, BN), or axis<1>
// expect: the axis is missing: give a dimension of the tile, as in sort(x, BN), or axis<1>
// expect: the axis is missing: give a dimension of the tile, as in sort(x, BN), or axis<1>
// expect: the axis is missing: give a dimension of the tile, as in sort(x, BN), or axis<1>
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, Offset<BM> m, Offset<BN> n) {
  Tile t = x.tile(m, n).load();
  sort(t);
  argsort(t);
  flip(t);
  cumsum(t);
  cumprod(t);
  cat(t, t);
  gather(t, 0);
  take(t, 0);
  narrow(t, 0, 4_c);
  auto [top, at] = topk(t, 4_c);
  reduce(t, [](auto a, auto b) { return a * b; });
  associative_scan(t, [](auto a, auto b) { return a * b; });
}
