// Stores a wider dtype without a cast.
// expect: the stored value's dtype is not the view's: write cast<T>(value)
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<bf16, 2> x, Offset<BM> m, Offset<BN> n, Tile<float, BM, BN> value) {
  x.tile(m, n).store(value);
}
