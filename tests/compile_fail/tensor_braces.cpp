// Makes tensors with extents that are not in braces.
// expect: the extents of a Tensor are in braces: Tensor<float, 2>::zeros({m, n})
#include <kiln/kiln.h>

using namespace kiln;

void kernel() { Tensor<float, 2>::zeros(4, 4); }
