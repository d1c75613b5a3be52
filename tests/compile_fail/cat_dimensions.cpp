// Puts tiles of two named dimensions together.
// expect: cat: the tiles must have the same dimensions, except for constants along the axis
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 1> x, Offset<BM> m, Offset<BN> n) {
  cat(x.tile(m).load(), x.tile(n).load(), BM);
}
