// Reduces arrays of any rank to the few ranks for which ops have kernels.
#pragma once

#include <kiln/ops/array.h>

#include <initializer_list>

namespace kiln::ops::detail {

// Moves an axis behind all others. A negative axis counts from the last one.
void move_to_end(Array& a, int axis);

// Merges the axes before the last `kept` ones, jointly for all arrays, whose extents are the same there. By
// stride, they are sorted by the strides of the first array first, so that more of them merge. Axes of
// extent 1 disappear, but one axis remains. Returns the number of axes that remain in front of the kept ones.
enum class MergeOrder : std::uint8_t { by_stride, as_given };
int merge_outer(std::initializer_list<Array*> arrays, int kept, MergeOrder order = MergeOrder::by_stride);

// Adds axes of extent 1 in front, up to this rank.
void pad_rank(Array& a, int rank);

// Removes an axis; what remains is the part at index 0.
void drop_axis(Array& a, int axis);
// Moves the array by a number of elements.
void advance(Array& a, std::int64_t elements);

// Exchanges the last two axes.
Array transposed(Array a);

} // namespace kiln::ops::detail
