// Provides what collectives and layers do with erased arrays: contiguous ones, and parts of them.
#pragma once

#include <kiln/collectives/schedule/shards.h>
#include <kiln/ops/detail/checks.h>

#include <algorithm>
#include <initializer_list>
#include <string>

namespace kiln::collectives {

inline void check_contiguous(const ops::detail::Checks& check, const ops::detail::Argument& argument) {
  const ops::Array& a = argument.array;
  check.that(kiln::detail::is_contiguous(a.rank, a.extents, a.strides),
             (std::string(argument.name) + " is not contiguous; copy it to a contiguous tensor").c_str());
}

inline ops::Array contiguous_array(void* data, DType dtype, std::initializer_list<std::int64_t> extents) {
  ops::Array a{data, dtype, false, static_cast<int>(extents.size())};
  std::copy(extents.begin(), extents.end(), a.extents);
  kiln::detail::row_major_strides(a.rank, a.extents, a.strides);
  return a;
}

// The indices of `range` along an axis.
inline ops::Array part_of(ops::Array a, int axis, Rows range) {
  a.data = static_cast<char*>(a.data) + range.begin * a.strides[axis] * size_of(a.dtype);
  a.extents[axis] = range.count();
  return a;
}

} // namespace kiln::collectives
