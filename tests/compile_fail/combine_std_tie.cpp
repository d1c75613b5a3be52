// Calls std::tie instead of kiln::tie.
// expect: several tiles are combined as state(x, y), not as a std::tuple such as std::tie returns
#include <kiln/dsl/language.h>

#include <tuple>

using namespace kiln;
using namespace std;
KILN_DIM(BM);

void kernel(Tile<float, BM> x, Tile<float, BM> y) {
  auto [a, b] = reduce(tie(x, y), BM, [](auto p, auto) { return p; });
  auto c = a + b;
}
