// Takes a row whose position is a float, and one element with too few positions.
// expect: take needs an integer as the position: for a tile of positions write gather
// expect: element needs one position for each axis of the tile
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, Offset<BM> m, Offset<BN> n) {
  Tile t = x.tile(m, n).load();
  take(t, 1.5f, BM);
  element(t, 0);
}
