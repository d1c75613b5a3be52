// Simplifies memory operations and checks with constant masks or constant `other` values.
#include <kiln/jit/passes/canonicalize.h>

namespace kiln::passes {

using namespace ir;

namespace {

bool is_splat(const Value* v) { return v->def && v->def->is(Opcode::Splat); }

std::optional<Cell> constant_mask(const Op& op) {
  const Value* mask = op.mask();
  return mask ? constant_of(mask) : std::nullopt;
}

bool is_load(const Op& op) {
  return op.is(Opcode::Load) || op.is(Opcode::ViewLoad) || op.is(Opcode::ViewGather);
}
bool is_store(const Op& op) {
  return op.is(Opcode::Store) || op.is(Opcode::ViewStore) || op.is(Opcode::ViewScatter);
}

void drop(Op& op, std::string_view flag) {
  op.operands.erase(op.operands.end() - 1 - (flag == "has_mask" ? op.integer("has_other") : 0));
  op.erase(flag);
}

} // namespace

bool does_nothing(const Op& op) {
  if (op.is(Opcode::Expects) || op.is(Opcode::DeviceAssert)) {
    std::optional<Cell> condition = constant_of(op.operand(0)), mask = constant_mask(op);
    return (condition && *condition) || (mask && !*mask);
  }
  std::optional<Cell> mask = constant_mask(op);
  return is_store(op) && mask && !*mask;
}

Value* simplify_memory(Op& op, Simplifier& make, bool* changed) {
  std::optional<Cell> mask = constant_mask(op);
  Value* other = op.other();
  if (mask && !*mask && is_load(op)) {
    const Type& type = op.result()->type;
    if (!other) return make.constant(type, 0);
    return other->type.is_scalar() ? make.splat(other, type.shape) : other;
  }
  if (mask && !*mask && op.info().cls == OpClass::Atomic) return make.constant(op.result()->type, 0);
  if (mask && *mask) {
    drop(op, "has_mask");
    *changed = true;
  }
  if (other && is_load(op)) {
    std::optional<Cell> cell = constant_of(other);
    if (cell && *cell == 0) {
      drop(op, "has_other");
      *changed = true;
    } else if (is_splat(other)) {
      op.operands.back() = other->def->operand(0);
      *changed = true;
    }
  }
  if (op.is(Opcode::Dot) && op.num_operands() == 3 && constant_of(op.operand(2)) == Cell{0}) {
    op.operands.pop_back();
    *changed = true;
  }
  return nullptr;
}

} // namespace kiln::passes
