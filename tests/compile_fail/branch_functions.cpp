// Passes values or tuples as branches, and a condition that is known while recording.
// expect: a branch is a function without parameters
// expect: a branch is a function without parameters
// expect: a branch returns a tile, a number, or several of them as state(a, b), not a std::tuple
// expect: this condition is known while recording: write a native if
// expect: the body of if_then is a function without parameters
#include <kiln/dsl/language.h>

#include <tuple>

using namespace kiln;
KILN_DIM(BM);

void kernel(Scalar<int> i, Tile<float, BM> x) {
  auto a = if_else(i > 0, x, x * 2);
  auto b = if_else(i > 0, [&](auto) { return x; }, [&](auto) { return x; });
  auto [c, d] = if_else(i > 0, [&] { return std::tuple(x, x); }, [&] { return std::tuple(x, x); });
  if_then(i > 0, [&](auto) {});
  auto e = if_else(true, [&] { return x; }, [&] { return x; });
  auto sums = a + b + c + d + e;
}
