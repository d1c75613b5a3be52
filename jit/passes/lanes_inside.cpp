// Builds masks of the elements that were read inside of their views.
#include <kiln/jit/passes/lanes_inside.h>
#include <kiln/jit/passes/mask_reductions.h>

#include <utility>

namespace kiln::passes {

using namespace ir;

Value* LanesInside::both(Value* a, Value* b) {
  if (!a || !b) return a ? a : b;
  return build_.binary(Opcode::And, a, b);
}

Value* LanesInside::of(const Value* value) {
  if (!value->def) return nullptr;
  if (const auto at = known_.find(value); at != known_.end()) return at->second;
  Value* mask = find(*value->def);
  return known_[value] = mask;
}

Value* LanesInside::find(const Op& op) {
  switch (op.code) {
  case Opcode::ViewLoad: return of_load(op);
  case Opcode::ViewGather: return of_gather(op);
  case Opcode::Load: return op.mask();
  case Opcode::Gather: return both(moved(op), of(op.operand(1)));
  case Opcode::Sort: return sorted(op);
  case Opcode::Select: return chosen(op);
  case Opcode::Reduce:
  case Opcode::Scan: return combined(op);
  default: break;
  }
  if (op.info().cls == OpClass::Shape) return moved(op);
  return is_elementwise(op.code) ? of_operands(op) : nullptr;
}

Value* LanesInside::of_load(const Op& op) {
  const auto offsets = op.view_offsets();
  std::vector<Value*> operands{op.operand(0)};
  operands.insert(operands.end(), offsets.begin(), offsets.end());
  Op* inside = build_.create(Opcode::ViewMask, operands, {op.result()->type.with_dtype(DType::Bool)});
  inside->set("axes", op.integers("axes"));
  return both(inside->result(), op.mask());
}

Value* LanesInside::of_gather(const Op& op) {
  Value* mask = op.mask();
  const auto indices = op.view_offsets();
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    Value* index = indices[axis];
    const Shape& shape = index->type.shape;
    Op* extent = build_.create(Opcode::ViewExtent, {op.operand(0)}, {Type::scalar(DType::I64)});
    extent->set("axis", static_cast<std::int64_t>(axis));
    mask = both(mask, build_.binary(Opcode::Ge, index, build_.splat(build_.index(0), shape)));
    mask = both(mask, build_.binary(Opcode::Lt, index, build_.splat(extent->result(), shape)));
    mask = both(mask, of(index));
  }
  return mask;
}

Value* LanesInside::of_operands(const Op& op) {
  Value* mask = nullptr;
  for (const Value* operand : op.operands)
    mask = both(mask, of(operand));
  return mask;
}

// Moves the elements of the operand's mask as the operation moves the operand's.
Value* LanesInside::moved(const Op& op) {
  Value* mask = of(op.operand(0));
  if (!mask) return nullptr;
  ValueMap map{{op.operand(0), mask}};
  std::unique_ptr<Op> copy = clone(op, map);
  copy->result()->type = op.result()->type.with_dtype(DType::Bool);
  return build_.insert(std::move(copy))->result();
}

// The mask of the sorted elements, or of their positions: both mean nothing where the element does not.
Value* LanesInside::sorted(const Op& op) {
  Value* mask = of(op.operand(0));
  if (!mask) return nullptr;
  Op* gather =
      build_.create(Opcode::Gather, {mask, op.result(1)}, {op.result(0)->type.with_dtype(DType::Bool)});
  gather->set("axis", op.integer("axis"));
  return gather->result();
}

// The mask of the operand that is chosen, where the condition means something.
Value* LanesInside::chosen(const Op& op) {
  Value *condition = of(op.operand(0)), *a = of(op.operand(1)), *b = of(op.operand(2));
  if (!a && !b) return condition;
  Value* everywhere = build_.splat(build_.constant(DType::Bool, std::int64_t{1}), op.result()->type.shape);
  return both(condition, build_.select(op.operand(0), a ? a : everywhere, b ? b : everywhere));
}

// The mask of results that depend on several elements of each operand.
Value* LanesInside::combined(const Op& op) {
  Value* mask = of_operands(op);
  return mask ? combined_like(build_, op, mask, Opcode::And) : nullptr;
}

} // namespace kiln::passes
