// Uses a comparison of tiles as a native condition.
// expect: a tile has no truth value while recording: use where(), if_else() or if_then()
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Scalar<float> x, View<float, 1> out, Offset<BM> m) {
  if (x * 2 > 1) out.tile(m).store(1.0f);
}
