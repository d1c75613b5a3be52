// Sorts tiles that std::tie put together.
// expect: several tiles are sorted as state(x, y), not as a std::tuple such as std::tie returns
#include <kiln/dsl/language.h>

#include <tuple>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<const float, 1> x, View<float, 1> y, Offset<BM> m) {
  Tile t = x.tile(m).load();
  auto [keys, values] = sort(std::tie(t, t), BM);
  y.tile(m).store(keys + values);
}
