// Forgets to unpack the states of a combine function, or to return one.
// expect: a combine function of several tiles must return state(...) of scalars, of the dtypes it takes
// expect: the tiles that are combined together must have the same dimensions
// expect: a state of several tiles is not a tile: unpack it first, auto [x, y] = a
#include <kiln/dsl/language.h>

#include <tuple>

using namespace kiln;
KILN_DIM(BM);
KILN_DIM(BN);

void kernel(Tile<float, BM, BN> x, Tile<int, BM, BN> i, Tile<int, BN> j) {
  auto [a, b] = reduce(tie(x, i), BN, [](auto p, auto q) { return p + q; });
  auto [c, d] = reduce(tie(x, i), BN, [](auto p, auto q) {
    auto [x, i] = p;
    auto [y, j] = q;
    return std::tuple(x + y, i + j);
  });
  auto [e, f] = reduce(tie(x, j), BN, [](auto p, auto) { return p; });
  auto sums = a + b + c + d + e + f;
}
