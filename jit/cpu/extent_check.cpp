// Recognises comparisons of column numbers with a view's extent.
#include <kiln/jit/cpu/extent_check.h>

namespace kiln::cpu {

using ir::Opcode;

namespace {

const ir::Value* splatted(const ir::Value* v) {
  return v->def && v->def->is(Opcode::Splat) ? v->def->operand(0) : nullptr;
}

// A plain arange, of any integer type that i64 holds.
const ir::Op* plain_numbers(const ir::Value* v) {
  const ir::Op* op = v->def;
  if (op && op->is(Opcode::Cast)) op = op->operand(0)->def;
  return op && op->is(Opcode::Arange) && is_signed(op->result()->type.dtype) ? op : nullptr;
}

bool add_numbers(const ir::Value* v, ExtentCheck& check) {
  if (const ir::Op* numbers = plain_numbers(v)) {
    check.start = numbers->integer("start");
    return true;
  }
  if (!v->def || !v->def->is(Opcode::Add)) return false;
  for (int side : {0, 1}) {
    const ir::Op* numbers = plain_numbers(v->def->operand(1 - side));
    check.offset = splatted(v->def->operand(side));
    if (!numbers || !check.offset) continue;
    check.start = numbers->integer("start");
    return true;
  }
  return false;
}

} // namespace

std::optional<ExtentCheck> extent_check(const ir::Op& op) {
  const bool less = op.is(Opcode::Lt);
  if (!less && !op.is(Opcode::Gt)) return std::nullopt;
  const ir::Value* numbers = op.operand(less ? 0 : 1);
  ExtentCheck check;
  check.extent = splatted(op.operand(less ? 1 : 0));
  if (!check.extent || !check.extent->def || !check.extent->def->is(Opcode::ViewExtent)) return std::nullopt;
  if (numbers->type.dtype != DType::I64 || numbers->type.shape.size() != 1) return std::nullopt;
  return add_numbers(numbers, check) ? std::optional(check) : std::nullopt;
}

} // namespace kiln::cpu
