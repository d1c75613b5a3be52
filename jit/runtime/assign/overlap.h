// Whether strided arrays share memory, exactly: arrays that interleave without meeting are told apart.
#pragma once

#include <kiln/jit/runtime/tensor_view.h>

namespace kiln::detail {

// A view without its type.
struct StridedArray {
  const void* data;
  int rank;
  const std::int64_t* extents;
  const std::int64_t* strides; // in elements
  std::int64_t element_bytes;

  template <class T, int Rank>
  StridedArray(const TensorView<T, Rank>& v)
      : data(v.data()), rank(Rank), extents(v.extents()), strides(v.strides()), element_bytes(sizeof(T)) {}
};

// Whether an element of one array is an element of the other; elements of both have one size. Where the
// answer would take too long (strides that have little to do with each other), it is yes.
bool arrays_overlap(const StridedArray& a, const StridedArray& b);
// Whether two indices of the array are the same element, as they are where a stride is 0. Long answers are
// yes, as above.
bool array_repeats(const StridedArray& a);
// Whether the same indices are the same elements.
bool is_same_array(const StridedArray& a, const StridedArray& b);

} // namespace kiln::detail
