// Launches kernels with the Grid before the config, with a config of numbers alone, and without a device.
// expect: the stream is followed by the config, and then by the Grid: launch(stream, {BM = 64}, Grid{n}, x)
// expect: a config gives sizes to dimensions by name: {BM = 128, BN = 64}
// expect: warm_up begins with the device: warm_up(Device::cpu(), {BM = 64})
#include <kiln/kiln.h>

using namespace kiln;
KILN_DIM(BM);

void call(Stream& stream, const Kernel<View<float, 1>>& k, const TensorView<float, 1>& x) {
  k.launch(stream, Grid{2}, {BM = 4}, x);
  k.launch(stream, {4, 4}, x);
  k.warm_up({BM = 4});
}
