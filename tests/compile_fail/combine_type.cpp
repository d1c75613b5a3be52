// Returns another dtype from a combine function.
// expect: a combine function must return scalars of the dtypes that it takes
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(Tile<float, BM> x) {
  auto y = reduce(x, BM, [](auto a, auto b) { return a > b; });
  auto z = y * 2;
}
