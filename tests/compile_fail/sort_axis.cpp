// Sorts along a plain number, and along a dimension that the tile does not have.
// expect: an axis is given as its dimension or as axis<1>, not as a plain number
// expect: the tile has no such dimension or axis
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 1> x, View<float, 1> y, Offset<BM> m) {
  y.tile(m).store(sort(x.tile(m).load(), 0));
  y.tile(m).store(argsort(x.tile(m).load(), BN));
}
