// Passes axes as plain numbers, as in NumPy and Triton, and a second axis in place of keep.
// expect: an axis is given as its dimension or as axis<1>, not as a plain number
// expect: an axis is given as its dimension or as axis<1>, not as a plain number
// expect: an axis is given as its dimension or as axis<1>, not as a plain number
// expect: an axis is given as its dimension or as axis<1>, not as a plain number
// expect: an axis is given as its dimension or as axis<1>, not as a plain number
// expect: an axis is given as its dimension or as axis<1>, not as a plain number
// expect: a reduction removes one axis: only keep may follow the axis
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(Tile<float, BM, BN> x) {
  auto a = sum(x, 1) * 2;
  auto b = max(x, 0, keep) * 2;
  auto c = argmax(x, 1) * 2;
  auto d = cumsum(x, 0) * 2;
  auto e = reduce(x, 1, [](auto a, auto b) { return a * b; }) * 2;
  auto f = associative_scan(x, 1, [](auto a, auto b) { return a * b; }) * 2;
  auto g = sum(x, BM, BN) * 2;
}
