// Requests more elements than there are, and a plain number of elements.
// expect: topk: the axis has fewer elements
// expect: topk takes the number of elements as a dimension: a KILN_DIM, or 8_c
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<const float, 1> x, Offset<BM> m, Offset<4_c> n) {
  auto [all, places] = topk(x.tile(n).load(), 8_c, axis<0>);
  auto [top, at] = topk(x.tile(m).load(), 8, BM);
}
