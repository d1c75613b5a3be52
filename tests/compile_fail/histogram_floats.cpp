// Counts floats, and gives the number of bins as a plain number.
// expect: histogram needs a tile of integers: cast floats to bins first
// expect: a tile's extents are dimensions: a KILN_DIM, or a constant such as 64_c
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<const float, 1> x, View<const int, 1> i, Offset<BM> m) {
  histogram(x.tile(m).load(), 16_c);
  histogram(i.tile(m).load(), 16);
}
