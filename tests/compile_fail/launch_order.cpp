// Launches kernels without a config or without a stream.
// expect: the stream is followed by the config: launch(stream, {BM = 64}, x, y)
// expect: a launch begins with the stream and the config: launch(stream, {BM = 64}, x, y)
// expect: a launch begins with the stream and the config: launch(stream, {BM = 64}, x, y)
// expect: a launch begins with the stream and the config: launch(stream, {BM = 64}, x, y)
// expect: interpret begins with the config, and takes no stream
// expect: interpret begins with the config, and takes no stream
#include <kiln/kiln.h>

using namespace kiln;
KILN_DIM(BM);

void call(Stream& stream, const Kernel<View<float, 1>>& k, const TensorView<float, 1>& x) {
  k.launch(stream, x);
  k.launch({BM = 4}, x);
  k.launch(x);
  k.launch(Device::cpu(), {BM = 4}, x);
  k.interpret(x);
  k.interpret(stream, {BM = 4}, x);
}
