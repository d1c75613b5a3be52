// Passes axes as arguments to functions that take them as template arguments.
// expect: expand takes the new axis as a template argument: expand<1>(x)
// expect: squeeze takes the axis as a template argument: squeeze<1>(x)
// expect: permute takes the axes as template arguments: permute<1, 0>(x)
// expect: trans exchanges the last two axes: for others write permute<1, 0, 2>(x)
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(Tile<float, BM, BN> x) {
  auto a = expand(x, 1) * 2;
  auto b = squeeze(x, 1) * 2;
  auto c = permute(x, 1, 0) * 2;
  auto d = trans(x, 1, 0) * 2;
}
