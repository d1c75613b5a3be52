// Makes tensors with too few or too many extents, and without braces.
// expect: the number of extents in braces must be that of the dimensions
// expect: the number of extents in braces must be that of the dimensions
// expect: the number of extents in braces must be that of the dimensions
#include <kiln/kiln.h>

using namespace kiln;

void kernel() {
  Tensor<float, 2>::zeros({16});
  Tensor<float, 3>::empty(Device::cpu(), {4, 4});
  Tensor<float, 1>::zeros({4, 4});
}
