// Calls for_range with arguments that no loop takes.
// expect: for_range takes a dimension and the end, or begin, end and step; then the state, if any, and the body
// expect: for_range takes a dimension and the end, or begin, end and step; then the state, if any, and the body
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, Offset<BM> m, Offset<BN> n) {
  for_range(x.rows(), [](auto) {});
  for_range(BN);
}
