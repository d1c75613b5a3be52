// Reduces arrays of any rank to the few ranks for which ops have kernels.
#pragma once

#include <kiln/ops/array.h>

#include <initializer_list>

namespace kiln::ops::detail {

// Moves an axis behind all others. A negative axis counts from the last one.
void move_to_end(Array& a, int axis);

// Merges the axes before the last `kept` ones, jointly for all arrays, whose extents are the same there. They
// are sorted by the strides of the first array, so that merging does not depend on their order. Axes of
// extent 1 disappear, but one axis remains. Returns the number of axes that remain in front of the kept ones.
int merge_outer(std::initializer_list<Array*> arrays, int kept);

// Adds axes of extent 1 in front, up to this rank.
void pad_rank(Array& a, int rank);

// Exchanges the last two axes.
Array transposed(Array a);

} // namespace kiln::ops::detail
