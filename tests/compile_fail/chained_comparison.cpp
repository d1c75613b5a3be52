// Compares the result of a comparison with a number.
// expect: a comparison gives a tile of bool: for a range write (low < x) & (x < high)
// expect: a comparison gives a tile of bool: for a range write (low < x) & (x < high)
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, Offset<BM> m, Offset<BN> n) {
  Tile t = x.tile(m, n).load();
  (void)(0 < t < 1);
  (void)(t >= 0 >= t);
}
