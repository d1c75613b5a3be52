// Recognises comparisons of column numbers with what does not vary along the columns.
#include <kiln/jit/cpu/facts/column_limit.h>

namespace kiln::cpu {

using ir::Opcode;

std::optional<ColumnLimit> column_limit(const ir::Op& op) {
  const bool less = op.is(Opcode::Lt) || op.is(Opcode::Le), greater = op.is(Opcode::Gt) || op.is(Opcode::Ge);
  if (!less && !greater) return std::nullopt;
  const bool in_32_bits = op.operand(0)->type.dtype == DType::I32;
  auto of = [&](int k) {
    return in_32_bits ? passes::numbers_in_32_bits(op.operand(k)) : passes::numbers_of(op.operand(k));
  };
  auto numbers = of(less ? 0 : 1);
  if (!numbers || numbers->axis < 0) return std::nullopt;
  auto bound = of(less ? 1 : 0);
  if (!bound || bound->axis == numbers->axis) return std::nullopt;
  return ColumnLimit{*numbers, *bound, op.is(Opcode::Le) || op.is(Opcode::Ge), in_32_bits};
}

} // namespace kiln::cpu
