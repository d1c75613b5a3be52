// Omits the step of a loop over scalars.
// expect: for_range over scalars takes a step: for_range(begin, end, 1, body)
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<float, 1> y) {
  for_range(0, y.extent(0), [&](auto i) { y.tile(i).store(0); });
}
