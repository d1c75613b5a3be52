// Compares a dimension in a config instead of binding it.
// expect: a config binds it with {BM = 4}
#include <kiln/kiln.h>

using namespace kiln;
KILN_DIM(BM);

void call(Stream& stream, const Kernel<View<float, 1>>& k, const TensorView<float, 1>& x) {
  k.launch(stream, {BM == 4}, x);
}
