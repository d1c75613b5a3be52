// Implements the merging of axes.
#include <kiln/ops/detail/axes.h>

#include <algorithm>
#include <cstdlib>

namespace kiln::ops::detail {

void move_to_end(Array& a, int axis) {
  if (axis < 0) axis += a.rank;
  std::rotate(a.extents + axis, a.extents + axis + 1, a.extents + a.rank);
  std::rotate(a.strides + axis, a.strides + axis + 1, a.strides + a.rank);
}

namespace {

void take_axes(Array& a, const int* order, int count, int kept) {
  const Array from = a;
  const int outer = a.rank - kept;
  for (int i = 0; i < count; ++i)
    a.extents[i] = from.extents[order[i]], a.strides[i] = from.strides[order[i]];
  for (int i = 0; i < kept; ++i)
    a.extents[count + i] = from.extents[outer + i], a.strides[count + i] = from.strides[outer + i];
  a.rank = count + kept;
}

// Whether axis i of each array continues axis i + 1.
bool can_merge(std::initializer_list<Array*> arrays, int i) {
  return std::all_of(arrays.begin(), arrays.end(),
                     [i](const Array* a) { return a->strides[i] == a->strides[i + 1] * a->extents[i + 1]; });
}

void merge(Array& a, int i) {
  a.extents[i] *= a.extents[i + 1];
  a.strides[i] = a.strides[i + 1];
  std::copy(a.extents + i + 2, a.extents + a.rank, a.extents + i + 1);
  std::copy(a.strides + i + 2, a.strides + a.rank, a.strides + i + 1);
  --a.rank;
}

} // namespace

int merge_outer(std::initializer_list<Array*> arrays, int kept, MergeOrder wanted) {
  Array& first = **arrays.begin();
  const int outer = first.rank - kept;
  int order[max_rank], count = 0;
  for (int i = 0; i < outer; ++i)
    if (first.extents[i] != 1) order[count++] = i;
  // An insertion sort, because std::stable_sort allocates.
  for (int i = 1; wanted == MergeOrder::by_stride && i < count; ++i)
    for (int j = i; j > 0 && std::abs(first.strides[order[j - 1]]) < std::abs(first.strides[order[j]]); --j)
      std::swap(order[j - 1], order[j]);
  if (count == 0 && outer > 0) order[count++] = outer - 1;
  for (Array* a : arrays)
    take_axes(*a, order, count, kept);
  for (int i = count - 2; i >= 0; --i) {
    if (!can_merge(arrays, i)) continue;
    for (Array* a : arrays)
      merge(*a, i);
    --count;
  }
  if (count == 0) // of a vector
    for (Array* a : arrays)
      pad_rank(*a, kept + 1);
  return std::max(count, 1);
}

void pad_rank(Array& a, int rank) {
  const int added = rank - a.rank;
  std::copy_backward(a.extents, a.extents + a.rank, a.extents + rank);
  std::copy_backward(a.strides, a.strides + a.rank, a.strides + rank);
  std::fill(a.extents, a.extents + added, 1);
  std::fill(a.strides, a.strides + added, 0);
  a.rank = rank;
}

void drop_axis(Array& a, int axis) {
  std::copy(a.extents + axis + 1, a.extents + a.rank, a.extents + axis);
  std::copy(a.strides + axis + 1, a.strides + a.rank, a.strides + axis);
  --a.rank;
}

void advance(Array& a, std::int64_t elements) {
  a.data = static_cast<char*>(a.data) + elements * size_of(a.dtype);
}

Array transposed(Array a) {
  std::swap(a.extents[a.rank - 1], a.extents[a.rank - 2]);
  std::swap(a.strides[a.rank - 1], a.strides[a.rank - 2]);
  return a;
}

} // namespace kiln::ops::detail
