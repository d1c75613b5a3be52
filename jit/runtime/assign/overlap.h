// Decides exactly whether strided arrays share elements: interleaved arrays without common elements do not
// overlap.
#pragma once

#include <kiln/jit/runtime/tensor_view.h>

namespace kiln::detail {

// A view without its element type.
struct StridedArray {
  const void* data;
  int rank;
  const std::int64_t* extents;
  const std::int64_t* strides; // in elements
  std::int64_t element_bytes;

  StridedArray(const void* d, int r, const std::int64_t* e, const std::int64_t* s, std::int64_t bytes)
      : data(d), rank(r), extents(e), strides(s), element_bytes(bytes) {}
  template <class T, int Rank>
  StridedArray(const TensorView<T, Rank>& v)
      : data(v.data()), rank(Rank), extents(v.extents()), strides(v.strides()), element_bytes(sizeof(T)) {}
};

// Whether an element of one array is also an element of the other. Elements of both have the same size. If
// the exact answer would take too long, as for strides without common structure, the result is true.
bool arrays_overlap(const StridedArray& a, const StridedArray& b);
// Whether two indices of the array refer to the same element, as with a stride of 0. True if the answer would
// take too long.
bool array_repeats(const StridedArray& a);
// Whether equal indices refer to the same elements in both arrays.
bool is_same_array(const StridedArray& a, const StridedArray& b);

} // namespace kiln::detail
