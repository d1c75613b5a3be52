// Declares how the axes of a tile correspond to the axes of the tile that it was broadcast or permuted from.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kiln::passes {

// Whether the operation repeats, inserts, removes or reorders whole axes: a broadcast, expand_dims, squeeze
// or permute.
bool maps_axes(const ir::Op& op);

// The axis of such an operation's operand that corresponds to an axis of its result; -1 if the result is
// constant along that axis. Axes of the operand without a counterpart in the result have extent 1.
int operand_axis(const ir::Op& op, int axis);

// The indices of an element in the operand, from its indices in the result; axes of one element get `first`.
template <class T>
std::vector<T> indices_in_operand(const ir::Op& op, const std::vector<T>& at, const T& first) {
  std::vector<T> inner(op.operand(0)->type.shape.size(), first);
  for (std::size_t a = 0; a < at.size(); ++a)
    if (const int axis = operand_axis(op, static_cast<int>(a)); axis >= 0)
      inner[static_cast<std::size_t>(axis)] = at[a];
  return inner;
}

// Axes [from, from_end) of one shape and [to, to_end) of the other, which have the same elements.
struct AxisGroup {
  std::size_t from, from_end, to, to_end;
};

// Divides the axes of two shapes with the same number of elements into the smallest groups with that property.
std::vector<AxisGroup> axis_groups(const std::vector<std::int64_t>& from,
                                   const std::vector<std::int64_t>& to);

} // namespace kiln::passes
