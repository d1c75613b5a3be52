// Multiplies tiles whose inner dimensions differ.
// expect: dot: the first tile's last dimension must be the second tile's second to last
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);
KILN_DIM(BK);

void kernel(Tile<bf16, BM, BK> a, Tile<bf16, BN, BK> b) {
  Tile c = dot(a, b);
  Tile d = c + 1;
}
