// Emits stores, and buffers values that a store could overwrite.
//
// The value of a store is evaluated as it is stored, unless that could read elements that are already
// overwritten.
#include <kiln/jit/cpu/emit/kernel_emitter.h>

#include <algorithm>
#include <utility>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

// Collects the loads that the evaluation of `v` executes. `identity` says whether element i of the root
// reads element i of the load.
void KernelEmitter::lazy_reads(const ir::Value* v, bool identity, std::vector<LazyRead>& into) const {
  Visited seen;
  lazy_reads(v, identity, into, seen);
}

void KernelEmitter::lazy_reads(const ir::Value* v, bool identity, std::vector<LazyRead>& into,
                               Visited& seen) const {
  if (!seen.insert({v, identity}).second) return;
  if (v->def && v->type.is_tile() && !plan_.has_buffer(v)) lazy_reads(*v->def, identity, into, seen);
}

void KernelEmitter::lazy_reads(const ir::Op& op, bool identity, std::vector<LazyRead>& into,
                               Visited& seen) const {
  if (op.info().effect == ir::Effect::Read) {
    for (const LazyRead& known : into)
      if (known.op == &op && known.identity == identity) return;
    into.push_back({&op, identity});
  }
  bool keeps = identity && !moves_elements(op);
  for (const ir::Value* operand : op.operands)
    if (!operand->type.is_view()) lazy_reads(operand, keeps, into, seen);
}

// i1: two views span no common byte. Computed from extents and strides, once per call of the entry point.
Value* KernelEmitter::disjoint(const ir::Value* a, const ir::Value* b) {
  IRBuilder::InsertPointGuard guard(b_);
  b_.SetInsertPoint(entry_end_);
  auto span = [&](const ir::Value* view) -> ViewFacts& {
    ViewFacts& v = facts(view);
    if (v.low) return v;
    Value* bytes = b_.getInt64(static_cast<std::uint64_t>(size_of(view->type.dtype)));
    Value *low = b_.CreatePtrToInt(v.data, b_.getInt64Ty()), *high = b_.CreateAdd(low, bytes);
    Value* empty = b_.getFalse();
    for (std::size_t axis = 0; axis < v.extents.size(); ++axis) {
      Value* reach =
          b_.CreateMul(b_.CreateMul(b_.CreateSub(v.extents[axis], b_.getInt64(1)), v.strides[axis]), bytes);
      low = b_.CreateAdd(low, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, reach, b_.getInt64(0)));
      high = b_.CreateAdd(high, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, reach, b_.getInt64(0)));
      empty = b_.CreateOr(empty, b_.CreateICmpSLE(v.extents[axis], b_.getInt64(0)));
    }
    v.low = low;
    v.high = b_.CreateSelect(empty, low, high);
    return v;
  };
  ViewFacts &x = span(a), &y = span(b);
  return b_.CreateOr(b_.CreateICmpULE(x.high, y.low), b_.CreateICmpULE(y.high, x.low));
}

// i1: two views have the same elements in the same order (the operation is in place).
Value* KernelEmitter::same_view(const ir::Value* a, const ir::Value* b) {
  if (a->type.dtype != b->type.dtype || a->type.view_rank != b->type.view_rank) return b_.getFalse();
  IRBuilder::InsertPointGuard guard(b_);
  b_.SetInsertPoint(entry_end_);
  ViewFacts &x = facts(a), &y = facts(b);
  Value* same = b_.CreateICmpEQ(x.data, y.data);
  for (std::size_t axis = 0; axis < x.extents.size(); ++axis)
    same = b_.CreateAnd(same, b_.CreateICmpEQ(x.strides[axis], y.strides[axis]));
  return same;
}

// i1: no two elements of a view share an address. Of any two axes, one must step over the whole other: sorted
// by stride, each axis then steps over all axes before it.
Value* KernelEmitter::distinct_elements(const ir::Value* view) {
  IRBuilder::InsertPointGuard guard(b_);
  b_.SetInsertPoint(entry_end_);
  ViewFacts& v = facts(view);
  Value* distinct = b_.getTrue();
  auto distance = [&](std::size_t axis) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v.strides[axis], b_.CreateNeg(v.strides[axis]));
  };
  for (std::size_t a = 0; a < v.extents.size(); ++a) {
    Value* single = b_.CreateICmpSLE(v.extents[a], b_.getInt64(1));
    Value* alone = b_.CreateICmpNE(v.strides[a], b_.getInt64(0));
    for (std::size_t c = 0; c < v.extents.size(); ++c) {
      if (c == a) continue;
      Value* over = b_.CreateICmpSGE(distance(a), b_.CreateMul(distance(c), v.extents[c]));
      Value* under = b_.CreateICmpSGE(distance(c), b_.CreateMul(distance(a), v.extents[a]));
      Value* ignored = b_.CreateICmpSLE(v.extents[c], b_.getInt64(1));
      alone = b_.CreateAnd(alone, b_.CreateOr(ignored, b_.CreateOr(over, under)));
    }
    distinct = b_.CreateAnd(distinct, b_.CreateOr(single, alone));
  }
  return distinct;
}

void KernelEmitter::emit_store(const ir::Op& op) {
  const Root root{Root::Kind::Store, nullptr, &op};
  const auto domain = extents_of(op.stored_value()->type);
  if (!joins_scan(root, domain)) flush();
  if (domain.empty()) return emit_nest({root}, domain);
  put_places_aside(op);
  const Hazard hazard = hazard_of(op);
  if (hazard.aside)
    store_aside(root);
  else if (hazard.direct)
    store_unless_overlapping(root, hazard.direct);
  else
    emit_with_pending(root, domain);
}

// Whether a store can share the nest of a pending scan, so that the prefixes it stores need not be in scratch
// first.
bool KernelEmitter::joins_scan(const Root& store, const std::vector<std::int64_t>& domain) {
  const bool scans = std::any_of(pending_.begin(), pending_.end(),
                                 [](const Root& root) { return root.kind == Root::Kind::Scan; });
  if (!scans || domain != pending_domain_ || !store.op->is(Opcode::ViewStore) || !can_join(store))
    return false;
  const ir::Value* mask = store.op->mask(); // its evaluation may have to come before the nest
  if (mask && touches_pending(mask, false)) return false;
  const Hazard hazard = hazard_of(*store.op);
  return !hazard.aside && (!hazard.direct || stores_rows(*store.op));
}

void KernelEmitter::emit_with_pending(const Root& root, const std::vector<std::int64_t>& domain) {
  std::vector<Root> roots = std::exchange(pending_, {});
  pending_size_ = 0;
  roots.push_back(root);
  emit_nest(std::move(roots), domain);
}

// The hazard of a store whose nest the pending roots share, if there are any.
KernelEmitter::Hazard KernelEmitter::hazard_of(const ir::Op& op) {
  std::vector<LazyRead> reads;
  lazy_reads(op.stored_value(), true, reads);
  Visited seen;
  for (const Root& root : pending_)
    lazy_reads(root.op ? *root.op : *root.value->def, true, reads, seen);
  Hazard hazard;
  for (const LazyRead& read : reads) {
    const ir::Op& load = *read.op;
    bool views = op.is(Opcode::ViewStore) && load.is(Opcode::ViewLoad);
    bool same_place = views && read.identity && load.integers("axes") == op.integers("axes") &&
                      load.operand(0)->type.view_rank == op.operand(0)->type.view_rank &&
                      std::ranges::equal(load.view_offsets(), op.view_offsets());
    bool in_place = same_place && load.operand(0) == op.operand(0);
    if (!in_place && (!views || load.operand(0) == op.operand(0))) {
      hazard.aside = true;
      continue;
    }
    Value* safe;
    if (in_place) {
      safe = distinct_elements(op.operand(0));
      if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(safe); known && known->isOne()) continue;
    } else {
      safe = disjoint(op.operand(0), load.operand(0));
      if (same_place)
        safe = b_.CreateOr(
            safe, b_.CreateAnd(same_view(op.operand(0), load.operand(0)), distinct_elements(op.operand(0))));
    }
    hazard.direct = hazard.direct ? b_.CreateAnd(hazard.direct, safe) : safe;
  }
  return hazard;
}

// Evaluates masks, pointers and indices that read memory before the first element is stored.
void KernelEmitter::put_places_aside(const ir::Op& store) {
  for (const ir::Value* v : store.operands) {
    std::vector<LazyRead> reads;
    if (v == store.stored_value() || v->type.is_view()) continue;
    lazy_reads(v, false, reads);
    if (reads.empty()) continue;
    Buffer kept = materialize(v);
    buffers_[v] = kept;
    plan_.add_buffer(v);
  }
}

void KernelEmitter::store_aside(Root root) {
  const ir::Value* value = root.op->stored_value();
  Buffer copy = materialize(value);
  root.stored_from = &copy;
  emit_nest({root}, extents_of(value->type));
}

// Whether the vectors of a store lie along contiguous rows, both in its view and in scratch.
bool KernelEmitter::stores_rows(const ir::Op& store) const {
  const ir::Type &type = store.stored_value()->type, &view = store.operand(0)->type;
  const auto& axes = store.integers("axes");
  return view.layout != LayoutClass::Any && !axes.empty() && axes.back() == view.view_rank - 1 &&
         !type.shape.back().is_one(); // otherwise lanes would be along another axis
}

// Stores to the view if no view that is read overlaps it; otherwise stores the tile in scratch and copies it
// from there.
void KernelEmitter::store_unless_overlapping(Root root, Value* direct) {
  const ir::Op& op = *root.op;
  const ir::Type& type = op.stored_value()->type;
  const auto domain = extents_of(type);
  Buffer aside = make_buffer(type);
  ViewFacts& v = facts(op.operand(0));
  const auto& axes = op.integers("axes");
  Value* start = b_.getInt64(0);
  auto offsets = op.view_offsets();
  for (std::size_t a = 0; a < offsets.size(); ++a)
    start = b_.CreateAdd(start, b_.CreateMul(scalar(offsets[a]), v.strides[a]));
  root.destination =
      b_.CreateSelect(direct, b_.CreateGEP(memory_type(context_, type.dtype), v.data, start), aside.pointer);
  root.direct = direct;
  if (!stores_rows(op)) return store_by_branch(root, aside);
  for (std::size_t t = 0; t < axes.size(); ++t) {
    Value* there = t + 1 == axes.size() ? b_.getInt64(1) : v.strides[static_cast<std::size_t>(axes[t])];
    root.destination_strides.push_back(
        b_.CreateSelect(direct, there, b_.getInt64(static_cast<std::uint64_t>(aside.strides[t]))));
  }
  emit_with_pending(root, domain);
  emit_if(b_, b_.CreateNot(direct), [&] {
    Root copy{Root::Kind::Store, nullptr, &op};
    copy.stored_from = &aside;
    emit_nest({copy}, domain);
  });
}

// Strided destinations are scattered through full addresses, which cannot be selected: emits a branch
// instead.
void KernelEmitter::store_by_branch(Root root, const Buffer& aside) {
  const ir::Value* value = root.op->stored_value();
  const auto domain = extents_of(value->type);
  Value* overlap = b_.CreateNot(root.direct);
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* safe = llvm::BasicBlock::Create(context_, "direct", function);
  auto* slow = llvm::BasicBlock::Create(context_, "aside", function);
  auto* join = llvm::BasicBlock::Create(context_, "stored", function);
  b_.CreateCondBr(overlap, slow, safe);
  b_.SetInsertPoint(safe);
  root.destination = nullptr;
  emit_nest({root}, domain);
  b_.CreateBr(join);
  b_.SetInsertPoint(slow);
  const int usual = std::exchange(scope_, ++scopes_);
  Root fill{Root::Kind::Fill, value};
  fill.buffer = aside;
  emit_nest({fill}, domain);
  root.stored_from = &aside;
  emit_nest({root}, domain);
  scope_ = usual;
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
}

} // namespace kiln::cpu
