// Applies an atomic operation to a read-only view.
// expect: the view is read-only: declare the parameter as View<T, Rank> to write to it
#include <kiln/dsl/language.h>

using namespace kiln;
KILN_DIM(BM);

void kernel(View<const float, 1> x, Offset<BM> m) {
  auto old = x.tile(m).atomic_add(1.0f);
  auto twice = old * 2;
}
