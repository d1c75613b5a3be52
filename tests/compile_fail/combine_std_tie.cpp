// std::tie where kiln::tie was meant.
// expect: several tiles are combined as state(x, y): a std::tuple, as std::tie makes it, is none
#include <kiln/dsl/language.h>

#include <tuple>

using namespace kiln;
using namespace std;
KILN_DIM(BM);

void kernel(Tile<float, BM> x, Tile<float, BM> y) {
  auto [a, b] = reduce(tie(x, y), BM, [](auto p, auto) { return p; });
  auto c = a + b;
}
