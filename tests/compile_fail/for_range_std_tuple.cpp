// Passes tuples of the standard library as states.
// expect: the state of a loop is a tile, a number, or several of them as state(a, b), not a std::tuple
// expect: the state of a loop is a tile, a number, or several of them as state(a, b), not a std::tuple
// expect: the body of for_range must return the next states, state(...), of the initial ones' dtypes
#include <kiln/dsl/language.h>

#include <tuple>

using namespace kiln;
KILN_DIM(BM);

void kernel(Scalar<int> n, Tile<float, BM> x) {
  auto [a, b] = for_range(BM, n, std::tuple(x, x), [&](auto, auto a, auto b) { return std::tuple(a, b); });
  auto [c, d] = for_range(0, n, 1, std::pair(x, x), [&](auto, auto a, auto b) { return std::pair(a, b); });
  auto [e, f] = for_range(0, n, 1, state(x, x), [&](auto, auto a, auto b) { return std::tuple(a, b); });
  auto sums = a + b + c + d + e + f;
}
