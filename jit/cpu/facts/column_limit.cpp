// Recognises comparisons of column indices with a bound that does not vary along the columns.
#include <kiln/jit/cpu/facts/column_limit.h>

namespace kiln::cpu {

using ir::Opcode;

std::optional<ColumnLimit> column_limit(const ir::Op& op) {
  const bool less = op.is(Opcode::Lt) || op.is(Opcode::Le), greater = op.is(Opcode::Gt) || op.is(Opcode::Ge);
  if (!less && !greater) return std::nullopt;
  const bool in_32_bits = op.operand(0)->type.dtype == DType::I32;
  auto of = [&](int k) {
    return in_32_bits ? passes::index_tile_in_32_bits(op.operand(k)) : passes::index_tile(op.operand(k));
  };
  auto columns = of(less ? 0 : 1);
  if (!columns || columns->axis < 0) return std::nullopt;
  auto bound = of(less ? 1 : 0);
  if (!bound || bound->axis == columns->axis) return std::nullopt;
  return ColumnLimit{*columns, *bound, op.is(Opcode::Le) || op.is(Opcode::Ge), in_32_bits};
}

} // namespace kiln::cpu
