// Multiplies offsets by the extents of tiles.
// expect: an offset already counts elements, and not tiles: write view.tile(m, n) without multiplying m by a dimension
// expect: an offset already counts elements, and not tiles: write view.tile(m, n) without multiplying m by a dimension
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(View<const float, 2> x, Offset<BM> m, Offset<BN> n) {
  x.tile(m * BM, n);
  x.tile(m, BN * n);
}
