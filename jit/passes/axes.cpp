// Maps the axes of broadcast, expand_dims, squeeze and permute, and groups those of reshapes.
#include <kiln/jit/passes/axes.h>

namespace kiln::passes {

using ir::Opcode;

bool maps_axes(const ir::Op& op) {
  return op.is(Opcode::Broadcast) || op.is(Opcode::ExpandDims) || op.is(Opcode::Squeeze) ||
         op.is(Opcode::Permute);
}

int operand_axis(const ir::Op& op, int axis) {
  const auto at = static_cast<int>(op.integer("axis")); // that expand_dims inserts or squeeze removes
  switch (op.code) {
  case Opcode::Broadcast:
    return op.operand(0)->type.shape[static_cast<std::size_t>(axis)].is_one() ? -1 : axis;
  case Opcode::ExpandDims: return axis == at ? -1 : axis - (axis > at);
  case Opcode::Squeeze: return axis + (axis >= at);
  default: return static_cast<int>(op.integers("order")[static_cast<std::size_t>(axis)]);
  }
}

std::vector<AxisGroup> axis_groups(const std::vector<std::int64_t>& from,
                                   const std::vector<std::int64_t>& to) {
  std::vector<AxisGroup> groups;
  for (std::size_t i = 0, j = 0; i < from.size() || j < to.size();) {
    AxisGroup group{i, 0, j, 0};
    std::int64_t in_from = i < from.size() ? from[i++] : 1, in_to = j < to.size() ? to[j++] : 1;
    while (in_from != in_to) {
      if (in_from < in_to)
        in_from *= from[i++];
      else
        in_to *= to[j++];
    }
    group.from_end = i, group.to_end = j;
    groups.push_back(group);
  }
  return groups;
}

} // namespace kiln::passes
