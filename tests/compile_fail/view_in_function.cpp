// Calls functions of tiles with views.
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
// expect: a view is not a tile: load a tile of it first, view.tile(m, k).load()
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x) {
  exp(x);
  sum(x, BN);
  max(x);
  min(x, 0);
  dot(x, x);
  relu(x);
  fma(x, x, x);
  cumsum(x, BN);
  isnan(x);
  where(x, x, 0);
  trans(x);
  reshape(x, BM);
  if_then(x, [] {});
  sort(x, BN);
  auto [top, at] = topk(x, 4_c, BN);
  argsort(x, BN);
  flip(x, BN);
}
