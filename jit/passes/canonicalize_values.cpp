// Simplifies operations on values: folds constants, casts, shape operations, and reductions over one element.
#include <kiln/jit/passes/canonicalize.h>

#include <algorithm>

namespace kiln::passes {

using namespace ir;

namespace {

bool is_def(const Value* v, Opcode code) { return v->def && v->def->is(code); }

Cell evaluate_on(const Op& op, const std::vector<Cell>& in) {
  DType from = cell_dtype(op.operand(0)->type), to = cell_dtype(op.result()->type);
  if (op.is(Opcode::Cast)) return evaluate_cast(from, to, in[0]);
  if (op.is(Opcode::Bitcast)) return evaluate_bitcast(from, to, in[0]);
  return evaluate(op.code, from, in[0], in.size() > 1 ? in[1] : 0, in.size() > 2 ? in[2] : 0);
}

// Applies the operation before its operands are repeated: exp(splat(s)) becomes splat(exp(s)), and
// broadcast(x) + broadcast(y) becomes broadcast(x + y).
Value* compute_before_repeating(const Op& op, Simplifier& make) {
  const Type& type = op.result()->type;
  if (!type.is_tile()) return nullptr;
  const Shape* inner = nullptr; // of the operands of the broadcasts
  for (const Value* v : op.operands) {
    if (is_def(v, Opcode::Splat)) continue;
    if (!is_def(v, Opcode::Broadcast)) return nullptr;
    const Shape& from = v->def->operand(0)->type.shape;
    if (inner && *inner != from) return nullptr;
    inner = &from;
  }
  Shape shape = inner ? *inner : Shape{};
  std::vector<Value*> operands;
  for (const Value* v : op.operands) {
    Value* source = v->def->operand(0);
    operands.push_back(is_def(v, Opcode::Splat) ? make.splat(source, shape) : source);
  }
  Value* once = make.make(op.code, operands, type.with_shape(shape));
  return inner ? make.make(Opcode::Broadcast, {once}, type) : make.splat(once, type.shape);
}

// Whether every number of `from` is also a number of `to`, so that the cast is exact.
bool is_lossless(DType from, DType to) {
  if (from == to || from == DType::Bool) return true;
  if (to == DType::Bool) return false;
  const DTypeInfo &f = info(from), &t = info(to);
  int bits = 8 * f.bytes - (is_signed(from) ? 1 : 0);
  if (is_float(from)) {
    if (!is_float(to)) return false;
    if (from == DType::F8E4M3 || from == DType::F8E5M2) return t.bytes > 1;
    return t.bytes > f.bytes && t.mantissa_bits > f.mantissa_bits; // f32 has all numbers of f16 and of bf16
  }
  if (is_float(to)) return bits <= t.mantissa_bits + 1 && to != DType::F8E4M3 && to != DType::F8E5M2;
  if (is_signed(from) && is_unsigned(to)) return false;
  return bits <= 8 * t.bytes - (is_signed(to) ? 1 : 0);
}

} // namespace

Value* fold_elementwise(const Op& op, Simplifier& make) {
  if (op.result()->type.pointer || op.is(Opcode::PtrAdd)) return compute_before_repeating(op, make);
  std::vector<Cell> in;
  for (const Value* v : op.operands)
    if (auto cell = constant_of(v)) in.push_back(*cell);
  if (in.size() != op.operands.size()) return compute_before_repeating(op, make);
  return make.constant(op.result()->type, evaluate_on(op, in));
}

Value* simplify_conversion(const Op& op, Simplifier& make) {
  if (!op.is(Opcode::Cast) && !op.is(Opcode::Bitcast)) return nullptr;
  Value* x = op.operand(0);
  const Type& type = op.result()->type;
  if (x->type == type) return x;
  if (!is_def(x, op.code)) return nullptr;
  Value* inner = x->def->operand(0);
  if (op.is(Opcode::Bitcast)) // a bitcast to bool does not keep all bits
    return x->type.dtype == DType::Bool ? nullptr : make.make(Opcode::Bitcast, {inner}, type);
  DType from = inner->type.dtype, to = type.dtype;
  if (!is_lossless(from, x->type.dtype)) return nullptr;
  if (from == to && from == DType::F8E5M2) return nullptr; // the second cast saturates infinities
  // A cast between integers wraps, but a cast from a float saturates.
  if (is_integer(from) && is_float(x->type.dtype) && is_integer(to) && !is_lossless(from, to)) return nullptr;
  return make.make(Opcode::Cast, {inner}, type);
}

Value* simplify_shape(const Op& op, Simplifier& make) {
  Value* x = op.operand(0);
  const Type& type = op.result()->type;
  if (op.is(Opcode::Splat)) return nullptr;
  if (is_def(x, Opcode::Splat)) return make.splat(x->def->operand(0), type.shape);
  Value* inner = is_def(x, op.code) ? x->def->operand(0) : nullptr;
  switch (op.code) {
  case Opcode::Broadcast:
    if (x->type == type) return x;
    return inner ? make.make(Opcode::Broadcast, {inner}, type) : nullptr;
  case Opcode::Reshape:
    if (x->type == type) return x;
    if (is_def(x, Opcode::ExpandDims) || is_def(x, Opcode::Squeeze)) inner = x->def->operand(0);
    return inner ? make.make(Opcode::Reshape, {inner}, type) : nullptr;
  case Opcode::ExpandDims:
    return is_def(x, Opcode::Squeeze) && x->def->operand(0)->type == type ? x->def->operand(0) : nullptr;
  case Opcode::Squeeze:
    return is_def(x, Opcode::ExpandDims) && x->def->operand(0)->type == type ? x->def->operand(0) : nullptr;
  case Opcode::Extract: {
    const std::int64_t axis = op.integer("axis");
    if (x->type.shape[static_cast<std::size_t>(axis)].is_one())
      return make.make(Opcode::Squeeze, x, type, "axis", axis);
    return nullptr;
  }
  case Opcode::Permute: {
    std::vector<std::int64_t> order = op.integers("order");
    if (inner)
      for (std::int64_t& axis : order)
        axis = x->def->integers("order")[static_cast<std::size_t>(axis)];
    if (std::is_sorted(order.begin(), order.end())) return inner ? inner : x;
    return inner ? make.make(Opcode::Permute, inner, type, "order", order) : nullptr;
  }
  default: return nullptr;
  }
}

Value* simplify_collective(const Op& op, Simplifier& make) {
  Value* x = op.operand(0);
  auto axis = op.integer("axis");
  const Dim& extent = x->type.shape[static_cast<std::size_t>(axis)];
  if (!extent.is_one() || x->type.dtype == DType::F8E5M2) return nullptr; // a combine saturates infinities
  if (op.is(Opcode::Scan)) return x;
  return make.make(Opcode::Squeeze, x, op.result()->type, "axis", axis);
}

} // namespace kiln::passes
