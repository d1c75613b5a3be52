// show-comparisons: makes conditions of asserts comparisons, so that errors can show both sides.
//
// The condition is a comparison that is broadcast or reshaped. The pass runs with KILN_DEBUG=1, after
// canonicalize, which moves comparisons before broadcasts.
//
//  1. A comparison whose result is repeated or reshaped is applied to the repeated or reshaped operands
//     instead: broadcast(a >= b) becomes broadcast(a) >= broadcast(b).
//  2. Rule 1 also applies to the operands of an "or", because a condition may be under a mask: a < b | !mask.
#include <kiln/jit/passes/passes.h>

#include <kiln/dsl/ir/semantics.h>

namespace kiln::passes {

using namespace ir;

namespace {

bool is_comparison(const Value* v) { return v->def && !relation_text(v->def->code).empty(); }

bool is_change_of_shape(const Op& op) {
  switch (op.code) {
  case Opcode::Splat:
  case Opcode::Broadcast:
  case Opcode::ExpandDims:
  case Opcode::Squeeze:
  case Opcode::Reshape:
  case Opcode::Permute: return true;
  default: return false;
  }
}

// Applies the shape operation `like` to `v`.
Value* shaped_like(Builder& build, const Op& like, Value* v) {
  Op* op = build.create(like.code, {v}, {v->type.with_shape(like.result()->type.shape)});
  for (const auto& [name, attribute] : like.attributes())
    op->set(name, attribute);
  return op->result();
}

// The condition after rules 1 and 2; `condition` itself if they do not apply.
Value* shown(Builder& build, Value* condition) {
  if (!condition->def) return condition;
  const Op& op = *condition->def;
  if (op.is(Opcode::Or)) {
    Value *left = shown(build, op.operand(0)), *right = shown(build, op.operand(1));
    if (left == op.operand(0) && right == op.operand(1)) return condition;
    return build.binary(Opcode::Or, left, right);
  }
  if (!is_change_of_shape(op)) return condition;
  const Value* inner = shown(build, op.operand(0));
  if (!is_comparison(inner)) return condition;
  Value* a = shaped_like(build, op, inner->def->operand(0));
  Value* b = shaped_like(build, op, inner->def->operand(1));
  return build.binary(inner->def->code, a, b);
}

void show_in(Region& region) {
  std::vector<std::unique_ptr<Op>> old = std::move(region.ops);
  region.ops.clear();
  Builder build(&region);
  for (auto& op : old) {
    for (const auto& inner : op->regions)
      show_in(*inner);
    build.set_location(op->loc);
    if (op->is(Opcode::DeviceAssert)) op->operands[0] = shown(build, op->operands[0]);
    region.ops.push_back(std::move(op));
  }
}

} // namespace

void show_comparisons(Kernel& kernel, const PassOptions&) { show_in(kernel.body); }

} // namespace kiln::passes
