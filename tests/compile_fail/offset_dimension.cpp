// Uses an offset of the wrong dimension.
// expect: dot: the first tile's last dimension must be the second tile's second to last
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

void kernel(View<float, 2> a, View<float, 2> b, Offset<BM> m, Offset<BN> n, Offset<BK> k) {
  auto c = dot(a.tile(m, k).load(), b.tile(n, k).load());
}
