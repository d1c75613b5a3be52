// Passes options as plain values.
// expect: options are in braces, with their names: sort(x, BN, {.descending = true}), cumsum(x, BN, {.reverse = true})
// expect: options are in braces, with their names: sort(x, BN, {.descending = true}), cumsum(x, BN, {.reverse = true})
// expect: options are in braces, with their names: sort(x, BN, {.descending = true}), cumsum(x, BN, {.reverse = true})
// expect: options are in braces, with their names: sort(x, BN, {.descending = true}), cumsum(x, BN, {.reverse = true})
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, Offset<BM> m, Offset<BN> n) {
  Tile t = x.tile(m, n).load();
  sort(t, BN, true);
  argsort(t, BN, true);
  auto [top, at] = topk(t, 4_c, BN, true);
  cumsum(t, BN, true);
}
