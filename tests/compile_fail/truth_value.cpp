// Uses a tile as a native condition.
// expect: a tile has no truth value while recording: use where(), if_else() or if_then()
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<bool, BM> x, View<float, 1> out, Offset<BM> m) {
  if (x) out.tile(m).store(1.0f);
}
