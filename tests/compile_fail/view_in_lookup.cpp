// Looks elements up in views, and computes with views.
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
  cat(x, x, BN);
  gather(x, x, BN);
  take(x, 0, BM);
  narrow(x, 0, 4_c, BN);
  histogram(x, 4_c);
  cast<bf16>(x);
  expand<1>(x);
  (void)(x == x);
  (void)(x < 1);
  -x;
}
