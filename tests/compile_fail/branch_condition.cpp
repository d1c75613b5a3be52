// Branches on a tile.
// expect: the condition of a branch must be a scalar bool: for tiles use where
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<float, BM> x) {
  auto y = if_else(x > 0, [&] { return x; }, [&] { return -x; });
}
