// Indexes tiles and views with brackets.
// expect: a tile is not indexed with []
// expect: a tile is not indexed with []
// expect: a view is not indexed with []: write view.tile(m, k).load()
// expect: a tile of a view is not indexed with []
// expect: a view is not indexed with ()
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<float, 2> x, Tile<float, BM> t, Offset<BM> m) {
  auto a = t[0];
  auto b = (t + 1)[m];
  auto c = x[0][0];
  auto d = x.tile(m, 0)[0];
  auto e = x(m, 0);
}
