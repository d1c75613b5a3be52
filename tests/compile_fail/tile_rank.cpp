// Indexes a view with too few offsets.
// expect: view.tile needs one offset or index for each axis of the view
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<float, 2> x, Offset<BM> m) {
  auto t = x.tile(m).load();
  x.tile(m, m).store(t);
}
