// Passes numbers as the condition of where.
// expect: the condition of where must be a tile of bool: compare with != 0
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<int, BM> c, Tile<float, BM> x) {
  auto y = where(c, x, 0);
  auto z = y * 2;
}
