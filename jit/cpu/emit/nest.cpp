// Emits loop nests: decides which roots share a nest, and emits the loops around the vector loop.
#include <kiln/jit/cpu/emit/kernel_emitter.h>

#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/passes/axes.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

// --- Which roots share a nest ------------------------------------------------------------------------------

namespace {

// Whether a root is a reverse scan.
bool is_reversed(const Root& root) {
  return root.kind == Root::Kind::Scan && root.op->integer("reverse") != 0;
}

} // namespace

// Whether the evaluation of `v` needs something that a pending root has not finished: the result of a
// reduction, or another element of a filled buffer than the current one.
bool KernelEmitter::touches_pending(const ir::Value* v, bool identity) const {
  Visited seen;
  return !pending_.empty() && touches_pending(v, identity, seen);
}

bool KernelEmitter::touches_pending(const ir::Value* v, bool identity, Visited& seen) const {
  if (!seen.insert({v, identity}).second) return false; // already visited
  for (const Root& root : pending_) {
    if (root.carries_values())
      for (const auto& r : root.op->results)
        if (r.get() == v) return root.kind == Root::Kind::Reduce || !identity;
    if (root.kind == Root::Kind::Fill && root.own && root.value == v) return !identity;
  }
  if (!v->def || plan_.has_buffer(v) ||
      (v->type.is_scalar() && !v->def->operands.empty() && is_root(*v->def)))
    return false;
  if (v->type.is_scalar()) return false; // computed in place, after a flush if necessary
  bool keeps = identity && !moves_elements(*v->def);
  for (const ir::Value* operand : v->def->operands)
    if (!operand->type.is_view() && touches_pending(operand, keeps, seen)) return true;
  return false;
}

bool only_fill_and_reduce(const std::vector<Root>& roots) {
  return std::all_of(roots.begin(), roots.end(), [](const Root& root) {
    return root.kind == Root::Kind::Fill || root.kind == Root::Kind::Reduce;
  });
}

bool KernelEmitter::can_join(const Root& root) const {
  for (const Root& other : pending_)
    if (root.carries_values() && other.carries_values() &&
        (root.op->integer("axis") != other.op->integer("axis") || is_reversed(root) != is_reversed(other)))
      return false;
  bool captures = false; // its combine region uses a scalar that is not computed yet
  if (root.carries_values())
    ir::walk(*root.op->region(), [&](const ir::Op& inner) {
      captures |= std::any_of(inner.operands.begin(), inner.operands.end(),
                              [&](const ir::Value* v) { return touches_pending(v, true); });
    });
  if (captures) return false;
  const ir::Op& op = root.kind == Root::Kind::Fill ? *root.value->def : *root.op;
  for (const ir::Value* v : op.operands)
    if (!v->type.is_view() && touches_pending(v, !moves_elements(op))) return false;
  return true;
}

void KernelEmitter::add_root(Root root) {
  std::vector<std::int64_t> domain =
      root.carries_values() ? extents_of(root.op->operand(0)->type) : root.buffer.extents;
  const int size = plan_.nest_size(root.kind == Root::Kind::Fill ? *root.value->def : *root.op);
  if (!pending_.empty() &&
      (domain != pending_domain_ || pending_size_ + size > largest_nest || !can_join(root)))
    flush();
  pending_domain_ = std::move(domain);
  pending_size_ += size;
  pending_.push_back(std::move(root));
}

void KernelEmitter::flush() {
  if (pending_.empty()) return;
  std::vector<Root> roots = std::move(pending_);
  pending_.clear();
  pending_size_ = 0;
  emit_nest(std::move(roots), pending_domain_);
  if (open_parts_) begin_part(*open_parts_);
}

// --- The loops ---------------------------------------------------------------------------------------------

namespace {

// The bytes of the widest element that a root computes with. 8-byte integers are mostly offsets, and do not
// count.
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

// Elements that all roots store outside of their views need not be computed: the loops of a nest that only
// stores to views end where the last of the views ends, so that a tile far larger than its view costs
// nothing. Scans whose results only these stores need end there as well, unless they are reversed.
Values KernelEmitter::store_bounds(const Nest& nest) {
  Values bounds(nest.domain.size(), nullptr);
  for (const Root& root : nest.roots) {
    const bool stores = root.kind == Root::Kind::Store && root.op->is(Opcode::ViewStore);
    const bool serves = root.kind == Root::Kind::Scan && root.kept.empty() && !nest.reversed;
    if (!stores && !serves) return bounds;
  }
  for (const Root& root : nest.roots) {
    if (root.kind != Root::Kind::Store) continue;
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

bool KernelEmitter::evaluates_functions(const Nest& nest) const {
  std::set<const ir::Value*> seen;
  auto evaluates = [&](auto&& self, const ir::Value* v) -> bool {
    const bool lazy = v->type.is_tile() && v->def && (!plan_.has_buffer(v) || nest.being_filled.count(v));
    if (!lazy || !seen.insert(v).second) return false;
    return has_long_latency(*v->def) ||
           std::any_of(v->def->operands.begin(), v->def->operands.end(),
                       [&](const ir::Value* operand) { return self(self, operand); });
  };
  for (const Root& root : nest.roots) {
    if (root.stored_from) continue;
    if (root.kind == Root::Kind::Fill && evaluates(evaluates, root.value)) return true;
    if (root.kind != Root::Kind::Fill)
      for (const ir::Value* v : root.op->operands)
        if (evaluates(evaluates, v)) return true;
  }
  return false;
}

// Whether `v` is evaluated from loads along its own last axis, which are contiguous only within one row.
bool KernelEmitter::reads_own_rows(const Nest& nest, const ir::Value* v) const {
  std::set<const ir::Value*> seen;
  auto reads = [&](auto&& self, const ir::Value* x) -> bool {
    const bool lazy = x->type.is_tile() && x->def && (!plan_.has_buffer(x) || nest.being_filled.count(x));
    if (!lazy || !seen.insert(x).second) return false;
    const ir::Op& op = *x->def;
    if (op.info().effect == ir::Effect::Read) return true;
    if (op.info().cls == ir::OpClass::Shape) {
      const int last = x->type.rank() - 1;
      if (!passes::maps_axes(op)) return false; // a reshape or an extract: its rows are others
      const int axis = passes::operand_axis(op, last);
      if (axis != op.operand(0)->type.rank() - 1) return false;
    }
    return std::any_of(op.operands.begin(), op.operands.end(),
                       [&](const ir::Value* operand) { return self(self, operand); });
  };
  return reads(reads, v);
}

// Rows that are much shorter than a vector would be filled one by one. If the buffers have no gaps, all their
// elements are filled in one loop instead.
void KernelEmitter::flatten_fills(Nest& nest) const {
  const std::int64_t elements =
      std::accumulate(nest.domain.begin(), nest.domain.end(), std::int64_t{1}, std::multiplies<>());
  const std::int64_t row = nest.domain[static_cast<std::size_t>(nest.vector_axis)];
  const std::int64_t lanes = target_.vector_bytes / widest_bytes(nest.roots);
  if (row > tuning::max_flattened_row || 2 * row > lanes || elements % lanes != 0 || elements == row) return;
  for (const Root& root : nest.roots)
    if (root.kind != Root::Kind::Fill || root.stored_from || !is_dense(root.buffer) ||
        reads_own_rows(nest, root.value))
      return;
  for (Root& root : nest.roots) {
    root.buffer.extents = {elements};
    root.buffer.strides = {1};
  }
  nest.domain = {elements};
  nest.vector_axis = 0;
  nest.flat = true;
}

void KernelEmitter::emit_nest(std::vector<Root> roots, const std::vector<std::int64_t>& domain) {
  Nest nest;
  nest.domain = domain;
  nest.roots = std::move(roots);
  int reduced = -1;
  for (Root& root : nest.roots) {
    if (root.carries_values()) reduced = static_cast<int>(root.op->integer("axis"));
    if (root.kind == Root::Kind::Scan) {
      nest.reversed = is_reversed(root);
      for (const auto& result : root.op->results)
        if (is_read_elsewhere(result.get(), nest.roots)) root.kept.push_back(result.get());
    }
    if (root.kind == Root::Kind::Fill && root.own) nest.being_filled.insert(root.value);
  }
  drop_nest_local_fills(nest.roots);
  for (int a = static_cast<int>(domain.size()) - 1; a >= 0 && nest.vector_axis < 0; --a)
    if (domain[static_cast<std::size_t>(a)] > 1) nest.vector_axis = a;
  if (nest.vector_axis >= 0) flatten_fills(nest);
  if (nest.vector_axis < 0 && reduced >= 0) nest.vector_axis = reduced; // a reduction of one element
  if (reduced >= 0 && reduced != nest.vector_axis) nest.reduced_axis = reduced;
  for (int a = 0; a < static_cast<int>(nest.domain.size()); ++a)
    if (a != nest.vector_axis && a != nest.reduced_axis && nest.domain[static_cast<std::size_t>(a)] > 1)
      nest.outer_axes.push_back(a);
  if (nest.vector_axis >= 0) {
    auto extent = static_cast<std::uint64_t>(nest.domain[static_cast<std::size_t>(nest.vector_axis)]);
    nest.native_lanes = static_cast<int>(std::min<std::uint64_t>(
        static_cast<std::uint64_t>(target_.vector_bytes / widest_bytes(nest.roots)), std::bit_ceil(extent)));
    // A reverse scan along rows needs whole vectors.
    if (nest.reversed && reduced == nest.vector_axis &&
        extent % static_cast<unsigned>(nest.native_lanes) != 0)
      nest.native_lanes = 1;
    nest.lanes = nest.native_lanes;
  }
  nest.bounds = store_bounds(nest);
  if (!nest.flat) bound_rows(nest);
  if (Value* unit_strides = nest.flat ? nullptr : find_transposed_accesses(nest)) {
    nest.always = false;
    emit_if_else(
        b_, unit_strides, [&] { emit_loops(nest); },
        [&] {
          nest.transposed_loads.clear();
          nest.transposed_stores.clear();
          emit_loops(nest);
        });
  } else {
    emit_loops(nest);
  }
  for (const ir::Op* load : nest.loads)
    ++times_read_[load];
}

void KernelEmitter::emit_loops(Nest& nest) {
  nest.hoisted.clear();
  Indices at(nest.domain.size(), Index{b_.getInt64(0)});
  emit_outer(nest, 0, at);
}

void KernelEmitter::emit_outer(Nest& nest, std::size_t k, Indices& at) {
  if (k == nest.outer_axes.size()) return emit_vector_level(nest, at);
  auto axis = static_cast<std::size_t>(nest.outer_axes[k]);
  Value *begin = b_.getInt64(0), *end = nest.bounds[axis];
  if (!end) end = b_.getInt64(static_cast<std::uint64_t>(nest.domain[axis]));
  auto rows = [&](Value* from, Value* to, int step) {
    emit_loop(b_, from, to, b_.getInt64(static_cast<std::uint64_t>(step)), {},
              [&](Value* i, const Values&, llvm::Instruction*) -> Values {
                nest.rows.clear();
                for (int r = 0; step > 1 && r < step; ++r)
                  nest.rows.push_back(
                      r == 0 ? i : b_.CreateNSWAdd(i, b_.getInt64(static_cast<std::uint64_t>(r))));
                at[axis] = Index{i, false, nullptr, static_cast<int>(k) + 1};
                emit_outer(nest, k + 1, at);
                return {};
              });
  };
  if (nest.computes_blocks() && k + 1 == nest.outer_axes.size()) {
    Value* left = b_.CreateURem(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, end, begin),
                                b_.getInt64(static_cast<std::uint64_t>(nest.block)));
    Value* blocks = b_.CreateSub(end, left);
    rows(begin, blocks, nest.block);
    begin = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, blocks, begin);
  }
  rows(begin, end, 1);
}

// The address to which a store with a destination of its own writes.
Value* KernelEmitter::destination_address(const Root& root, const Indices& at) {
  Value* position = b_.getInt64(0);
  for (std::size_t a = 0; a < at.size(); ++a)
    position = b_.CreateAdd(position, b_.CreateMul(at[a].base, root.destination_strides[a]));
  return b_.CreateGEP(memory_type(context_, root.op->operand(0)->type.dtype), root.destination, position);
}

// Emits one vector (or element) of every root at `at`. Roots that carry values continue from `accumulators`.
void KernelEmitter::emit_roots(Nest& nest, const Indices& at, Accumulators* accumulators) {
  std::size_t running = 0;
  for (const Root& root : nest.roots) {
    switch (root.kind) {
    case Root::Kind::Fill:
      store_buffer(nest, root.buffer, at,
                   root.stored_from ? load_buffer(nest, *root.stored_from, at)
                   : nest.flat      ? flat_element(nest, root.value, at[0])
                                    : operand_element(nest, root.value, at));
      break;
    case Root::Kind::Reduce: accumulate(nest, root, at, (*accumulators)[running++]); break;
    case Root::Kind::Scan: advance_scan(nest, root, at, (*accumulators)[running++]); break;
    case Root::Kind::Update: update(nest, *root.op, at, root.plain); break;
    case Root::Kind::Store: {
      locate(*root.op);
      const ir::Op& op = *root.op;
      DType t = op.operand(0)->type.dtype;
      Value* v = root.stored_from ? load_buffer(nest, *root.stored_from, at)
                                  : operand_element(nest, op.stored_value(), at);
      if (transposed_store(nest, op, at, v)) break;
      Access access = op.is(Opcode::ViewStore)     ? view_access(nest, op, at)
                      : op.is(Opcode::ViewScatter) ? gather_access(nest, op, at)
                                                   : pointer_access(nest, op, at);
      if (root.destination) {
        access.address = destination_address(root, at);
        access.address = mapped(nest, access);
      }
      store_access(nest, access, t, v);
      break;
    }
    }
  }
}

// Emits loops that call `body` for one element after the other, in row-major order.
void KernelEmitter::emit_each_element(const std::vector<std::int64_t>& domain,
                                      llvm::function_ref<void(Nest&, const Indices&)> body) {
  Nest nest;
  nest.domain = domain;
  Indices at(domain.size(), Index{b_.getInt64(0)});
  auto loops = [&](auto&& self, std::size_t a) -> void {
    if (a == domain.size()) {
      nest.memo.clear();
      return body(nest, at);
    }
    emit_loop(b_, b_.getInt64(0), b_.getInt64(static_cast<std::uint64_t>(domain[a])), b_.getInt64(1), {},
              [&](Value* i, const Values&, llvm::Instruction*) -> Values {
                at[a] = Index{i, false, nullptr, static_cast<int>(a) + 1};
                self(self, a + 1);
                return {};
              });
  };
  loops(loops, 0);
}

} // namespace kiln::cpu
