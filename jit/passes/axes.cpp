// Maps the axes of broadcast, expand_dims, squeeze and permute.
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

} // namespace kiln::passes
