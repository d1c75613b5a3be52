// Says which operations give the same bits when their operands are exchanged.
#pragma once

#include <kiln/dsl/ir/ir.h>

namespace kiln::passes {

// For every dtype. min and max of floats are not among them: given zeros of both signs, which of them is the
// result may depend on the order.
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

// For the dtype of this operation.
inline bool is_commutative(const ir::Op& op) {
  if (op.is(ir::Opcode::Min) || op.is(ir::Opcode::Max)) return !is_float(op.operand(0)->type.dtype);
  return is_commutative(op.code);
}

} // namespace kiln::passes
