// Loop nests: which roots share one, the loops over a domain, and the fast and guarded halves of the vector
// loop.
#include <kiln/jit/cpu/emit/kernel_emitter.h>

#include <kiln/jit/cpu/abi.h>

#include <algorithm>
#include <bit>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

// --- Sharing
// ---------------------------------------------------------------------------------------------------------

// Whether evaluating `v` would need something a pending root has not finished: the result of a reduction, or
// a filled buffer at another element than the one at hand.
bool KernelEmitter::touches_pending(const ir::Value* v, bool identity) const {
  Visited seen;
  return !pending_.empty() && touches_pending(v, identity, seen);
}

bool KernelEmitter::touches_pending(const ir::Value* v, bool identity, Visited& seen) const {
  if (!seen.insert({v, identity}).second) return false; // answered already
  for (const Root& root : pending_) {
    if (root.kind == Root::Kind::Reduce)
      for (const auto& r : root.op->results)
        if (r.get() == v) return true;
    if (root.kind == Root::Kind::Fill && root.own && root.value == v) return !identity;
  }
  if (!v->def || plan_.has_buffer(v) ||
      (v->type.is_scalar() && !v->def->operands.empty() && is_root(*v->def)))
    return false;
  if (v->type.is_scalar()) return false; // computed in place, after a flush if it needed one
  bool keeps = identity && v->def->info().cls != ir::OpClass::Shape;
  for (const ir::Value* operand : v->def->operands)
    if (!operand->type.is_view() && touches_pending(operand, keeps, seen)) return true;
  return false;
}

bool KernelEmitter::can_join(const Root& root) const {
  auto reduced = [](const Root& r) {
    return r.kind == Root::Kind::Reduce ? static_cast<int>(r.op->integer("axis")) : -1;
  };
  int axis = reduced(root);
  for (const Root& other : pending_) {
    int other_axis = reduced(other);
    if (axis >= 0 && other_axis >= 0 && axis != other_axis) return false;
  }
  const ir::Op& op = root.kind == Root::Kind::Fill ? *root.value->def : *root.op;
  for (const ir::Value* v : op.operands)
    if (!v->type.is_view() && touches_pending(v, op.info().cls != ir::OpClass::Shape)) return false;
  return true;
}

void KernelEmitter::add_root(Root root) {
  std::vector<std::int64_t> domain =
      root.kind == Root::Kind::Reduce ? extents_of(root.op->operand(0)->type) : root.buffer.extents;
  if (!pending_.empty() && (domain != pending_domain_ || !can_join(root))) flush();
  pending_domain_ = std::move(domain);
  pending_.push_back(std::move(root));
}

void KernelEmitter::flush() {
  if (pending_.empty()) return;
  std::vector<Root> roots = std::move(pending_);
  pending_.clear();
  emit_nest(std::move(roots), pending_domain_);
}

// --- Loops
// -----------------------------------------------------------------------------------------------------------

namespace {

// Lanes of the widest element that a root computes with; 8-byte integers are mostly offsets and do not count.
int widest_bytes(const std::vector<Root>& roots) {
  int bytes = 1;
  auto count = [&](const ir::Type& type) {
    if (type.pointer) return;
    int size = is_float(type.dtype) ? std::max(4, size_of(type.dtype)) : std::min(4, size_of(type.dtype));
    if (type.dtype == DType::Bool) size = 4;
    bytes = std::max(bytes, size);
  };
  for (const Root& root : roots) {
    if (root.value) count(root.value->type);
    if (root.op)
      for (const ir::Value* v : root.op->operands)
        if (!v->type.is_view() && v->type.is_tile()) count(v->type);
  }
  return bytes;
}

} // namespace

// Elements that every root would store outside of its view need not be computed: the loops of a nest that
// only stores to views end where the last of them does, so a tile far larger than its view costs nothing.
Values KernelEmitter::store_bounds(const Nest& nest) {
  Values bounds(nest.domain.size(), nullptr);
  for (const Root& root : nest.roots)
    if (root.kind != Root::Kind::Store || !root.op->is(Opcode::ViewStore)) return bounds;
  for (const Root& root : nest.roots) {
    const auto& axes = root.op->integers("axes");
    for (std::size_t t = 0; t < axes.size(); ++t) {
      auto axis = static_cast<std::size_t>(axes[t]);
      Value* room =
          b_.CreateSub(facts(root.op->operand(0)).extents[axis], scalar(root.op->view_offsets()[axis]));
      bounds[t] = bounds[t] ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, bounds[t], room) : room;
    }
  }
  for (std::size_t a = 0; a < bounds.size(); ++a)
    if (bounds[a])
      bounds[a] = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, bounds[a],
                                           b_.getInt64(static_cast<std::uint64_t>(nest.domain[a])));
  return bounds;
}

void KernelEmitter::emit_nest(std::vector<Root> roots, const std::vector<std::int64_t>& domain) {
  Nest nest;
  nest.domain = domain;
  nest.roots = std::move(roots);
  int reduced = -1;
  for (const Root& root : nest.roots) {
    if (root.kind == Root::Kind::Reduce) reduced = static_cast<int>(root.op->integer("axis"));
    if (root.kind == Root::Kind::Fill && root.own) nest.being_filled.insert(root.value);
  }
  for (int a = static_cast<int>(domain.size()) - 1; a >= 0 && nest.vector_axis < 0; --a)
    if (domain[static_cast<std::size_t>(a)] > 1) nest.vector_axis = a;
  if (nest.vector_axis < 0 && reduced >= 0) nest.vector_axis = reduced; // one element, reduced
  if (reduced >= 0 && reduced != nest.vector_axis) nest.reduced_axis = reduced;
  Indices at(domain.size(), Index{b_.getInt64(0)});
  for (int a = 0; a < static_cast<int>(domain.size()); ++a)
    if (a != nest.vector_axis && a != nest.reduced_axis && domain[static_cast<std::size_t>(a)] > 1)
      nest.outer_axes.push_back(a);
  if (nest.vector_axis >= 0) {
    auto extent = static_cast<std::uint64_t>(domain[static_cast<std::size_t>(nest.vector_axis)]);
    nest.lanes = static_cast<int>(std::min<std::uint64_t>(
        static_cast<std::uint64_t>(target_.vector_bytes / widest_bytes(nest.roots)), std::bit_ceil(extent)));
  }
  nest.bounds = store_bounds(nest);
  emit_outer(nest, 0, at);
  for (const ir::Op* load : nest.loads)
    ++times_read_[load];
}

void KernelEmitter::emit_outer(Nest& nest, std::size_t k, Indices& at) {
  if (k == nest.outer_axes.size()) return emit_vector_level(nest, at);
  auto axis = static_cast<std::size_t>(nest.outer_axes[k]);
  Value* end =
      nest.bounds[axis] ? nest.bounds[axis] : b_.getInt64(static_cast<std::uint64_t>(nest.domain[axis]));
  emit_loop(b_, b_.getInt64(0), end, b_.getInt64(1), {},
            [&](Value* i, const Values&, llvm::Instruction*) -> Values {
              at[axis] = Index{i, false, nullptr, static_cast<int>(k) + 1};
              emit_outer(nest, k + 1, at);
              return {};
            });
}

// Where a store with a destination of its own writes.
Value* KernelEmitter::destination_address(const Root& root, const Indices& at) {
  Value* position = b_.getInt64(0);
  for (std::size_t a = 0; a < at.size(); ++a)
    position = b_.CreateAdd(position, b_.CreateMul(at[a].base, root.destination_strides[a]));
  return b_.CreateGEP(memory_type(context_, root.op->operand(0)->type.dtype), root.destination, position);
}

// One vector (or element) of every root at `at`; reductions along the vector axis go to `accumulators`.
void KernelEmitter::emit_roots(Nest& nest, const Indices& at, Accumulators* accumulators) {
  std::size_t reduction = 0;
  for (const Root& root : nest.roots) {
    switch (root.kind) {
    case Root::Kind::Fill:
      store_buffer(nest, root.buffer, at,
                   root.stored_from ? load_buffer(nest, *root.stored_from, at)
                                    : operand_element(nest, root.value, at));
      break;
    case Root::Kind::Reduce: accumulate(nest, root, at, (*accumulators)[reduction++]); break;
    case Root::Kind::Store: {
      locate(*root.op);
      const ir::Op& op = *root.op;
      DType t = op.operand(0)->type.dtype;
      Value* v = root.stored_from ? load_buffer(nest, *root.stored_from, at)
                                  : operand_element(nest, op.stored_value(), at);
      Access access = op.is(Opcode::ViewStore)     ? view_access(nest, op, at)
                      : op.is(Opcode::ViewScatter) ? gather_access(nest, op, at)
                                                   : pointer_access(nest, op, at);
      if (root.destination) access.address = destination_address(root, at);
      store_access(nest, access, t, v);
      break;
    }
    }
  }
}

namespace {

Values flatten(const Accumulators& accumulators) {
  Values flat;
  for (const Accumulator& a : accumulators) {
    flat.insert(flat.end(), a.values.begin(), a.values.end());
    if (a.has) flat.push_back(a.has);
  }
  return flat;
}

Accumulators unflatten(const Values& flat, const Accumulators& like) {
  Accumulators result = like;
  std::size_t at = 0;
  for (Accumulator& a : result) {
    for (Value*& v : a.values)
      v = flat[at++];
    if (a.has) a.has = flat[at++];
  }
  return result;
}

} // namespace

// Whether the vectors of this row may be stored past the cache, which saves reading what is overwritten: the
// launch writes enough (LaunchContext::stream_bytes) and whole vectors lie at aligned addresses. Null if
// never.
Value* KernelEmitter::may_stream(Nest& nest, const Indices& at) {
  if (nest.roots.size() != 1 || nest.lanes == 1) return nullptr;
  const Root& root = nest.roots[0];
  if (root.kind != Root::Kind::Store || root.stored_from) return nullptr;
  const ir::Op& op = *root.op;
  if (!op.is(Opcode::ViewStore) || op.mask()) return nullptr;
  const ir::Type& type = op.operand(0)->type;
  const auto& axes = op.integers("axes");
  bool rows = type.layout != LayoutClass::Any && !axes.empty() && axes.back() == type.view_rank - 1 &&
              nest.vector_axis == static_cast<int>(axes.size()) - 1;
  int bytes = nest.lanes * size_of(type.dtype);
  if (!rows || bytes < 16) return nullptr;
  streams_ = true;
  ViewFacts& view = facts(op.operand(0));
  if (!view.streams) {
    IRBuilder::InsertPointGuard guard(b_);
    b_.SetInsertPoint(entry_end_);
    Value* written = b_.getInt64(static_cast<std::uint64_t>(size_of(type.dtype)));
    for (Value* extent : view.extents)
      written = b_.CreateMul(written, extent);
    Value* least =
        b_.CreateLoad(b_.getInt64Ty(), b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), launch_context_,
                                                                     offsetof(LaunchContext, stream_bytes)));
    view.streams = b_.CreateICmpSGE(written, least);
  }
  Value* address = root.destination ? destination_address(root, at)
                                    : view_access(nest, op, at, /*address_only=*/true).address;
  Value* misaligned = b_.CreateAnd(b_.CreatePtrToInt(address, b_.getInt64Ty()),
                                   b_.getInt64(static_cast<std::uint64_t>(bytes - 1)));
  Value* may = b_.CreateAnd(view.streams, b_.CreateICmpEQ(misaligned, b_.getInt64(0)));
  return root.direct ? b_.CreateAnd(may, root.direct) : may;
}

// Where the fast half ends: `whole`, or before the first step that is not wholly inside the views.
Value* KernelEmitter::vector_end(Nest& nest, std::int64_t whole, std::int64_t step) {
  Value* end = b_.getInt64(static_cast<std::uint64_t>(whole));
  for (Value* limit : nest.limits)
    end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, limit);
  if (nest.limits.empty()) return end;
  end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, end, b_.getInt64(0));
  return b_.CreateAnd(end, b_.getInt64(~static_cast<std::uint64_t>(step - 1)));
}

void KernelEmitter::emit_vector_level(Nest& nest, Indices& at) {
  int outer = static_cast<int>(nest.outer_axes.size());
  if (nest.vector_axis < 0) {
    nest.guarded = true;
    nest.memo.clear();
    return emit_roots(nest, at, nullptr);
  }
  auto axis = static_cast<std::size_t>(nest.vector_axis);
  std::int64_t extent = nest.domain[axis];
  bool inner_reduction = nest.reduced_axis >= 0;
  bool reduces = false, has_initial = true;
  for (const Root& root : nest.roots)
    reduces |= root.kind == Root::Kind::Reduce;

  // Several accumulators hide the latency of the combining operation; combines without identity keep one.
  Accumulators initial;
  if (reduces && !inner_reduction) {
    initial = initial_accumulators(nest);
    for (const Accumulator& a : initial)
      has_initial &= a.has == nullptr;
  }
  nest.unroll = 1;
  if (reduces && !inner_reduction && has_initial)
    while (nest.unroll < 4 && extent >= 2 * nest.unroll * nest.lanes)
      nest.unroll *= 2;

  // The body of one step, from any accumulators to the next.
  auto step = [&](Value* j, Accumulators accumulators, llvm::Instruction* preheader, bool guarded,
                  Value* tail) {
    at[axis] = Index{j, nest.lanes > 1, nullptr, outer + 1};
    nest.guarded = guarded;
    nest.tail = tail;
    nest.memo.clear();
    if (!inner_reduction) {
      nest.hoist_point = preheader;
      nest.hoist_depth = outer + 1;
      emit_roots(nest, at, &accumulators);
      return accumulators;
    }
    // Down the reduced axis with a vector of running values.
    auto reduced = static_cast<std::size_t>(nest.reduced_axis);
    Accumulators columns = initial_accumulators(nest);
    Accumulators like = columns;
    auto hoisted = std::exchange(nest.hoisted, {});
    Loop loop = emit_loop(b_, b_.getInt64(0), b_.getInt64(static_cast<std::uint64_t>(nest.domain[reduced])),
                          b_.getInt64(1), flatten(columns),
                          [&](Value* r, const Values& carried, llvm::Instruction* before) -> Values {
                            at[reduced] = Index{r, false, nullptr, outer + 2};
                            nest.hoist_point = before;
                            nest.hoist_depth = outer + 2;
                            nest.memo.clear();
                            Accumulators now = unflatten(carried, like);
                            emit_roots(nest, at, &now);
                            return flatten(now);
                          });
    at[reduced] = Index{b_.getInt64(0)};
    nest.hoist_point = nullptr;
    nest.hoisted = std::move(hoisted);
    nest.memo.clear();
    columns = unflatten(loop.results, like);
    std::size_t k = 0;
    for (const Root& root : nest.roots)
      if (root.kind == Root::Kind::Reduce) finish_reduction(nest, root, columns[k++], at);
    return accumulators;
  };

  nest.hoisted.clear();
  nest.limits.clear();
  nest.limit_depth = outer;
  std::int64_t chunk = static_cast<std::int64_t>(nest.lanes) * nest.unroll;
  std::int64_t whole = extent / chunk * chunk;

  // Fast half. Its end is known only once its body has shown which views it touches.
  std::vector<Accumulators> chains(static_cast<std::size_t>(nest.unroll), initial);
  Values flat;
  for (const Accumulators& chain : chains)
    for (Value* v : flatten(chain))
      flat.push_back(v);
  std::size_t each = nest.unroll ? flat.size() / static_cast<std::size_t>(nest.unroll) : 0;
  const bool hosts = deferral_.store && !deferral_.body && region_depth_ == 1;
  auto fast_half = [&] {
    auto* open_end = new llvm::FreezeInst(b_.getInt64(0), "end", b_.GetInsertBlock());
    const unsigned before = hosts ? function_->getInstructionCount() : 0;
    llvm::PHINode* index = nullptr;
    Loop loop = emit_loop(
        b_, b_.getInt64(0), open_end, b_.getInt64(static_cast<std::uint64_t>(chunk)), flat,
        [&](Value* j, const Values& carried, llvm::Instruction* preheader) -> Values {
          nest.limit_point = preheader;
          index = llvm::cast<llvm::PHINode>(j);
          Values next;
          for (int u = 0; u < nest.unroll; ++u) {
            auto first = carried.begin() + static_cast<std::ptrdiff_t>(each) * u;
            Accumulators now = unflatten(Values(first, first + static_cast<std::ptrdiff_t>(each)), initial);
            Value* start =
                u == 0 ? j : b_.CreateNSWAdd(j, b_.getInt64(static_cast<std::uint64_t>(u * nest.lanes)));
            now = step(start, now, preheader, false, nullptr);
            for (Value* v : flatten(now))
              next.push_back(v);
          }
          return next;
        });
    flat = loop.results;
    if (hosts)
      deferral_.hosts.push_back({index, chunk, nest.lanes, function_->getInstructionCount() - before});
    IRBuilder::InsertPointGuard guard(b_);
    b_.SetInsertPoint(loop.preheader_end);
    Value* end = vector_end(nest, whole, chunk);
    open_end->replaceAllUsesWith(end);
    open_end->eraseFromParent();
    return end;
  };
  auto store_vector = [&](Value* j, llvm::Instruction* preheader) { step(j, {}, preheader, false, nullptr); };
  Value* fast_end = b_.getInt64(0);
  Value* streams = whole > 0 && !reduces ? may_stream(nest, at) : nullptr;
  if (streams) {
    const bool defers = hosts && nest.roots[0].op == deferral_.store && !deferral_.hosts.empty();
    if (defers) deferral_.before_store = new llvm::FreezeInst(b_.getInt64(0), "before", b_.GetInsertBlock());
    auto* streaming = llvm::BasicBlock::Create(context_, "streaming", function_);
    auto* caching = llvm::BasicBlock::Create(context_, "caching", function_);
    auto* join = llvm::BasicBlock::Create(context_, "join", function_);
    b_.CreateCondBr(streams, streaming, caching);
    b_.SetInsertPoint(join);
    llvm::PHINode* end = b_.CreatePHI(b_.getInt64Ty(), 2);
    for (auto* block : {streaming, caching}) {
      b_.SetInsertPoint(block);
      nest.streaming = block == streaming;
      nest.limits.clear();
      nest.hoisted.clear();
      Value* reached = nest.streaming && defers ? defer_row(nest, whole, store_vector) : fast_half();
      end->addIncoming(reached, b_.GetInsertBlock());
      b_.CreateBr(join);
    }
    b_.SetInsertPoint(join);
    nest.hoisted.clear();
    fast_end = end;
  } else if (whole > 0) {
    fast_end = fast_half();
  }
  Accumulators total = initial;
  if (each != 0 || !initial.empty()) {
    total = unflatten(Values(flat.begin(), flat.begin() + static_cast<std::ptrdiff_t>(each)), initial);
    for (int u = 1; u < nest.unroll; ++u) {
      auto first = flat.begin() + static_cast<std::ptrdiff_t>(each) * u;
      Accumulators other = unflatten(Values(first, first + static_cast<std::ptrdiff_t>(each)), initial);
      std::size_t k = 0;
      for (const Root& root : nest.roots)
        if (root.kind == Root::Kind::Reduce) total[k] = merge(nest, root, total[k], other[k]), ++k;
    }
  }

  // Guarded half: from there to the end, with masks.
  if (whole < extent || !nest.limits.empty()) {
    std::int64_t padded = (extent + nest.lanes - 1) / nest.lanes * nest.lanes;
    Value* end = b_.getInt64(static_cast<std::uint64_t>(padded));
    if (nest.bounds[axis]) end = nest.bounds[axis]; // at most the extent
    Loop loop = emit_loop(
        b_, fast_end, end, b_.getInt64(static_cast<std::uint64_t>(nest.lanes)), flatten(total),
        [&](Value* j, const Values& carried, llvm::Instruction* preheader) -> Values {
          Value* tail = nullptr;
          if (extent % nest.lanes != 0) {
            Value* left = b_.CreateBinaryIntrinsic(
                llvm::Intrinsic::smin, b_.CreateSub(b_.getInt64(static_cast<std::uint64_t>(extent)), j),
                b_.getInt64(static_cast<std::uint64_t>(nest.lanes)));
            Value* lane =
                b_.CreateTrunc(lane_numbers(b_, nest.lanes), lanes_type(b_.getInt32Ty(), nest.lanes));
            tail = b_.CreateICmpSLT(lane, widen(b_, b_.CreateTrunc(left, b_.getInt32Ty()), nest.lanes));
          }
          return flatten(step(j, unflatten(carried, total), preheader, true, tail));
        });
    total = unflatten(loop.results, total);
  }
  nest.hoist_point = nullptr;
  nest.hoisted.clear();
  nest.memo.clear();
  nest.tail = nullptr;
  at[axis] = Index{b_.getInt64(0)};
  if (inner_reduction || !reduces) return;
  std::size_t k = 0;
  for (const Root& root : nest.roots)
    if (root.kind == Root::Kind::Reduce) finish_reduction(nest, root, total[k++], at);
}

} // namespace kiln::cpu
