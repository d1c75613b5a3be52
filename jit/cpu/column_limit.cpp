// Recognises comparisons of column numbers with what does not vary along the columns.
#include <kiln/jit/cpu/column_limit.h>

#include <utility>

namespace kiln::cpu {

using ir::Opcode;

namespace {

// A plain arange, of any integer type that i64 holds.
const ir::Op* plain_numbers(const ir::Value* v) {
  const ir::Op* op = v->def;
  if (op && op->is(Opcode::Cast)) op = op->operand(0)->def;
  return op && op->is(Opcode::Arange) && is_signed(op->result()->type.dtype) ? op : nullptr;
}

std::optional<Numbers> numbers_of(const ir::Value* v) {
  const ir::Op* op = v->def;
  if (!op || !v->type.is_tile() || v->type.dtype != DType::I64) return std::nullopt;
  if (op->is(Opcode::Splat)) return Numbers{op->operand(0), 0, -1};
  if (const ir::Op* arange = plain_numbers(v)) return Numbers{nullptr, arange->integer("start"), 0};
  if (op->is(Opcode::Add)) {
    auto x = numbers_of(op->operand(0)), y = numbers_of(op->operand(1));
    if (!x || !y) return std::nullopt;
    if (x->axis >= 0) std::swap(x, y);
    if (x->axis >= 0 || y->axis < 0 || y->offset) return std::nullopt;
    y->offset = x->offset;
    return y;
  }
  if (op->is(Opcode::Broadcast)) {
    auto x = numbers_of(op->operand(0));
    const bool repeated =
        x && x->axis >= 0 && op->operand(0)->type.shape[static_cast<std::size_t>(x->axis)].is_one();
    return repeated ? std::nullopt : x;
  }
  if (op->is(Opcode::ExpandDims)) {
    auto x = numbers_of(op->operand(0));
    if (x && x->axis >= op->integer("axis")) ++x->axis;
    return x;
  }
  return std::nullopt;
}

} // namespace

std::optional<ColumnLimit> column_limit(const ir::Op& op) {
  const bool less = op.is(Opcode::Lt) || op.is(Opcode::Le), greater = op.is(Opcode::Gt) || op.is(Opcode::Ge);
  if (!less && !greater) return std::nullopt;
  auto numbers = numbers_of(op.operand(less ? 0 : 1));
  if (!numbers || numbers->axis < 0) return std::nullopt;
  auto bound = numbers_of(op.operand(less ? 1 : 0));
  if (!bound || bound->axis == numbers->axis) return std::nullopt;
  return ColumnLimit{*numbers, *bound, op.is(Opcode::Le) || op.is(Opcode::Ge)};
}

} // namespace kiln::cpu
