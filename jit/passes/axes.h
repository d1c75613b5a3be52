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

// Axes [from, from_end) of one shape and [to, to_end) of the other, which have the same elements.
struct AxisGroup {
  std::size_t from, from_end, to, to_end;
};

// Divides the axes of two shapes with the same number of elements into the smallest groups with that property.
std::vector<AxisGroup> axis_groups(const std::vector<std::int64_t>& from,
                                   const std::vector<std::int64_t>& to);

} // namespace kiln::passes
