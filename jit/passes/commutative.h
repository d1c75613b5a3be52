// Which operations give the same, to the bit, with their operands exchanged.
#pragma once

#include <kiln/dsl/ir/ir.h>

namespace kiln::passes {

// Of every dtype. Float min and max are not: which zero they give of two with different signs may depend on
// the order.
inline bool is_commutative(ir::Opcode code) {
  using ir::Opcode;
  switch (code) {
  case Opcode::Add:
  case Opcode::Mul:
  case Opcode::And:
  case Opcode::Or:
  case Opcode::Xor:
  case Opcode::Eq:
  case Opcode::Ne: return true;
  default: return false;
  }
}

// Of the operation's own dtype.
inline bool is_commutative(const ir::Op& op) {
  if (op.is(ir::Opcode::Min) || op.is(ir::Opcode::Max)) return !is_float(op.operand(0)->type.dtype);
  return is_commutative(op.code);
}

} // namespace kiln::passes
