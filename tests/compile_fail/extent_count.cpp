// Makes tensors and views with too few or too many extents or strides, and without braces.
// expect: the number of extents in braces must be that of the dimensions
// expect: the number of strides in braces must be that of the dimensions
// expect: the number of strides in braces must be that of the dimensions
// expect: permute takes each dimension of the view once
#include <kiln/kiln.h>

using namespace kiln;

void kernel(float* p) {
  TensorView<float, 2>{p, {16}};
  TensorView<float, 3>{p, {2, 2, 2}, {4}};
  TensorView{p, {4, 4}, {1}};
  TensorView{p, {4, 4}}.permute({1});
}
