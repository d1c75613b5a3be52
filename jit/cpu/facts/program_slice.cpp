// Walks from scalars back to the operations that compute them.
#include <kiln/jit/cpu/facts/program_slice.h>

#include <kiln/jit/passes/rewrite_rules.h>

#include <algorithm>

namespace kiln::cpu {

using ir::Op;
using ir::Opcode;
using ir::Value;

std::optional<int> program_offset(const Value* v, std::int64_t tile) {
  const Op* op = v->def;
  if (!op) return std::nullopt;
  if (tile != 1) {
    if (!op->is(Opcode::Mul)) return std::nullopt;
    const Value *x = op->operand(0), *y = op->operand(1);
    if (passes::constant_of(x)) std::swap(x, y);
    auto cell = passes::constant_of(y);
    if (!cell || static_cast<std::int64_t>(*cell) != tile) return std::nullopt;
    op = x->def;
  }
  if (!op || !op->is(Opcode::ProgramId)) return std::nullopt;
  return static_cast<int>(op->integer("axis"));
}

bool computes_one_value(const Op& op) {
  return op.num_results() == 1 && op.regions.empty() && op.info().cls != ir::OpClass::Control &&
         (op.info().effect == ir::Effect::Pure || op.info().effect == ir::Effect::Read);
}

std::vector<const Value*> Slice::added_along(int axis) const {
  std::vector<const Value*> found;
  for (const Value* v : added_) {
    Slice own(*body_);
    own.add(v);
    if (own.axes() >> axis & 1) found.push_back(v);
  }
  return found;
}

bool Slice::follow(const Value* v) {
  if (!body_->has(v) || !v->type.is_scalar()) return false;
  const Op* op = v->def;
  if (!op || !ops_.insert(op).second) return true;
  if (!computes_one_value(*op)) return false;
  if (op->is(Opcode::ProgramId)) axes_ |= 1U << op->integer("axis");
  return std::all_of(op->operands.begin(), op->operands.end(),
                     [&](const Value* x) { return x->type.is_view() || follow(x); });
}

} // namespace kiln::cpu
