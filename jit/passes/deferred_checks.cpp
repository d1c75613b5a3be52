// Follows the results of reads by index to where they are used, and checks the indices there.
#include <kiln/jit/passes/deferred_checks.h>
#include <kiln/jit/passes/mask_reductions.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace kiln::passes {

using namespace ir;

namespace {

// Combines two masks. Null is true everywhere, and a scalar holds for all elements of a tile.
Value* combine(Builder& build, Opcode code, Value* a, Value* b) {
  if (a->type.is_tile() && !b->type.is_tile()) b = build.splat(b, a->type.shape);
  if (b->type.is_tile() && !a->type.is_tile()) a = build.splat(a, b->type.shape);
  return build.binary(code, a, b);
}
Value* both(Builder& build, Value* a, Value* b) {
  if (!a || !b) return a ? a : b;
  return combine(build, Opcode::And, a, b);
}

// Operations that move elements of operand 0.
bool moves_elements(const Op& op) { return op.info().cls == OpClass::Shape || op.is(Opcode::Gather); }
bool reads_elements(const Op& op) {
  return op.is(Opcode::ViewLoad) || op.is(Opcode::ViewGather) || op.is(Opcode::Load);
}
// Whether each element of the result depends on one element of each operand only, or on a scalar.
bool is_followed(const Op& op) {
  return moves_elements(op) || reads_elements(op) || is_elementwise(op.code) || op.is(Opcode::PtrAdd);
}

// Moves the elements of `value` as the operation moves those of its operand 0. (A scalar holds for all.)
Value* moved_like(Builder& build, const Op& op, Value* value) {
  if (!value || !value->type.is_tile()) return value;
  ValueMap map{{op.operand(0), value}};
  std::unique_ptr<Op> copy = clone(op, map);
  copy->result()->type = op.result()->type.with_dtype(value->type.dtype);
  return build.insert(std::move(copy))->result();
}

// The elements that a store or an atomic writes, of those that it gets; null if they are all.
Value* written(Builder& build, const Op& op) {
  if (op.is(Opcode::ViewStore)) {
    const auto offsets = op.view_offsets();
    std::vector<Value*> operands{op.operand(0)};
    operands.insert(operands.end(), offsets.begin(), offsets.end());
    Op* inside = build.create(Opcode::ViewMask, operands, {op.stored_value()->type.with_dtype(DType::Bool)});
    inside->set("axes", op.integers("axes"));
    return both(build, inside->result(), op.mask());
  }
  const bool by_element = op.is(Opcode::ViewScatter) || op.is(Opcode::Store) || op.is(Opcode::AtomicRmw) ||
                          op.is(Opcode::AtomicCas);
  return by_element ? op.mask() : nullptr;
}

} // namespace

void assert_index(Builder& build, const IndexCheck& check, Value* mask) {
  const Type& type = check.index->type;
  Value* zero = build.constant(type.dtype, std::int64_t{0});
  for (auto [relation, bound] : {std::pair{Opcode::Ge, zero}, {Opcode::Lt, check.limit}}) {
    std::vector<Value*> operands{build.binary(relation, check.index, build.splat(bound, type.shape))};
    if (mask) operands.push_back(mask);
    Op* op = build.create(Opcode::DeviceAssert, operands, {});
    if (mask) op->set("has_mask", std::int64_t{1});
    op->set("message", check.message);
  }
}

void DeferredChecks::defer(const Op& read, std::vector<IndexCheck> checks, Value* mask) {
  std::vector<Value*> indices;
  for (const IndexCheck& c : checks)
    indices.push_back(c.index);
  known_[read.result()].push_back(
      {std::make_shared<const Read>(Read{read.loc, std::move(checks)}), std::move(indices), mask});
}

void DeferredChecks::check(Builder& build, const Dependence& d, Value* mask) const {
  const SourceLocation here = build.location();
  build.set_location(d.read->loc);
  Value* where = both(build, d.where, mask);
  for (std::size_t i = 0; i < d.indices.size(); ++i) {
    IndexCheck moved = d.read->checks[i];
    moved.index = d.indices[i];
    const bool one = !moved.index->type.is_tile() && where && where->type.is_tile();
    assert_index(build, moved, one ? any_of(build, where) : where);
  }
  build.set_location(here);
}

// A value that a region yields is followed to the result of an `if`, unless its indices are not visible
// there.
void DeferredChecks::before(Builder& build, const Op& op) {
  if (is_followed(op)) return;
  const Op* parent = build.region()->parent;
  const bool leaves_branch = op.is(Opcode::Yield) && parent && parent->is(Opcode::If);
  std::unordered_set<const Value*> inner;
  if (leaves_branch)
    for (const auto& o : build.region()->ops)
      for (const auto& r : o->results)
        inner.insert(r.get());
  for (const Value* operand : op.operands) {
    const auto at = known_.find(operand);
    if (at == known_.end()) continue;
    std::erase_if(at->second, [&](const Dependence& d) {
      const bool visible = leaves_branch && !inner.contains(d.where) &&
                           std::none_of(d.indices.begin(), d.indices.end(),
                                        [&](const Value* v) { return inner.contains(v); }) &&
                           std::none_of(d.read->checks.begin(), d.read->checks.end(),
                                        [&](const IndexCheck& c) { return inner.contains(c.limit); });
      if (visible) return false;
      check(build, d, written(build, op));
      return leaves_branch;
    });
  }
}

void DeferredChecks::after(Builder& build, const Op& op) {
  if (op.is(Opcode::If)) return follow_branches(build, op);
  if (!is_followed(op)) return;
  Dependences to;
  for (int i = 0; i < op.num_operands(); ++i)
    follow_operand(build, op, i, to);
  if (!to.empty()) known_[op.result()] = std::move(to);
}

// The results of the branches count where the branch is taken.
void DeferredChecks::follow_branches(Builder& build, const Op& op) {
  for (int branch = 0; branch < 2; ++branch) {
    const Op* yield = op.region(branch)->terminator();
    for (std::size_t i = 0; yield && i < op.results.size(); ++i) {
      const auto at = known_.find(yield->operands[i]);
      if (at == known_.end()) continue;
      for (Dependence d : Dependences(at->second)) {
        Value* taken = branch ? build.unary(Opcode::Not, op.operand(0)) : op.operand(0);
        d.where = both(build, d.where, taken);
        merge(build, known_[op.results[i].get()], std::move(d));
      }
    }
  }
}

void DeferredChecks::follow_operand(Builder& build, const Op& op, int operand, Dependences& to) {
  const auto at = known_.find(op.operand(operand));
  if (at == known_.end()) return;
  for (Dependence d : Dependences(at->second)) {
    if (moves_elements(op) && operand == 0) {
      for (Value*& index : d.indices)
        index = moved_like(build, op, index);
      d.where = moved_like(build, op, d.where);
    }
    if (op.is(Opcode::Select) && operand > 0) {
      Value* chosen = op.operand(0);
      d.where = both(build, d.where, operand == 1 ? chosen : build.unary(Opcode::Not, chosen));
    } else if ((op.is(Opcode::And) || op.is(Opcode::Or)) && op.result()->type.dtype == DType::Bool) {
      Value* other = op.operand(1 - operand);
      d.where = both(build, d.where, op.is(Opcode::And) ? other : build.unary(Opcode::Not, other));
    } else if (reads_elements(op) && op.mask() && op.operand(operand) != op.mask()) {
      d.where = both(build, d.where, op.mask());
    }
    merge(build, to, std::move(d));
  }
}

// An element that depends on the same indices of a read in two ways depends on them where either way does.
void DeferredChecks::merge(Builder& build, Dependences& to, Dependence d) {
  for (Dependence& known : to) {
    if (known.read != d.read || known.indices != d.indices) continue;
    known.where =
        known.where && d.where
            ? (known.where == d.where ? known.where : combine(build, Opcode::Or, known.where, d.where))
            : nullptr;
    return;
  }
  to.push_back(std::move(d));
}

} // namespace kiln::passes
