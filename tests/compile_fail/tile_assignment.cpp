// Writes to memory by an assignment.
// expect: a tile of a view is written by view.tile(...).store(value)
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<const float, 1> x, View<float, 1> y, Offset<BM> m) { y.tile(m) = x.tile(m).load(); }
