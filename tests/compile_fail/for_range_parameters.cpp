// Omits the parameter for the index or the state in the body of a loop.
// expect: the body of for_range takes the index and the state
// expect: the body of a for_range without a state takes only the index
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<const float, 1> x, View<float, 1> y) {
  auto acc = for_range(BM, x.extent(0), zeros<float>(BM), [&](auto m) { return x.tile(m).load(); });
  for_range(BM, x.extent(0), [&] { y.tile(0).store(0); });
  y.tile(offset(BM, 0)).store(acc);
}
