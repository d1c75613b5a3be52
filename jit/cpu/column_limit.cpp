// Recognises comparisons of column numbers with what does not vary along the columns.
#include <kiln/jit/cpu/column_limit.h>

namespace kiln::cpu {

using ir::Opcode;

std::optional<ColumnLimit> column_limit(const ir::Op& op) {
  const bool less = op.is(Opcode::Lt) || op.is(Opcode::Le), greater = op.is(Opcode::Gt) || op.is(Opcode::Ge);
  if (!less && !greater) return std::nullopt;
  auto numbers = passes::numbers_of(op.operand(less ? 0 : 1));
  if (!numbers || numbers->axis < 0) return std::nullopt;
  auto bound = passes::numbers_of(op.operand(less ? 1 : 0));
  if (!bound || bound->axis == numbers->axis) return std::nullopt;
  return ColumnLimit{*numbers, *bound, op.is(Opcode::Le) || op.is(Opcode::Ge)};
}

} // namespace kiln::cpu
