// Chooses between tiles with ?:.
// expect: a tile has no truth value while recording: use where(), if_else() or if_then()
// expect: a tile has no truth value while recording: use where(), if_else() or if_then()
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Scalar<bool> c, Tile<float, BM> x, Tile<float, BM> y) {
  auto a = c ? x : y + 1;
  auto b = x > 0 ? x : y;
}
