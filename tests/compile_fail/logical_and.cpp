// Uses && on tiles.
// expect: && does not work on tiles, because both sides are always computed: use &
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<float, BM> x, Tile<float, BM> y) {
  auto both = x > 0 && y > 0;
  auto z = where(both, x, y);
}
