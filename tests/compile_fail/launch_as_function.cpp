// Calls kernels as functions, and gives them the config last.
// expect: a kernel is not called as a function: write k.launch(stream, {BM = 64}, x, y)
// expect: a kernel is not called as a function: write k.launch(stream, {BM = 64}, x, y)
// expect: the stream is followed by the config: launch(stream, {BM = 64}, x, y)
#include <kiln/kiln.h>

using namespace kiln;
KILN_DIM(BM);

void call(Stream& stream, const Kernel<View<float, 1>>& k, const TensorView<float, 1>& x) {
  k(x);
  k(stream, {BM = 4}, x);
  k.launch(stream, x, {BM = 4});
}
