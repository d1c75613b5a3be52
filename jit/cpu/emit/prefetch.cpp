// Emits prefetches of what loads will read: further on in their row, and in the next program's tile.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/emit/prefetch.h>

#include <llvm/Transforms/Utils/Local.h>

#include <algorithm>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

// The bytes that a program reads and writes, and has in scratch so far.
std::int64_t KernelEmitter::program_bytes() const {
  std::int64_t bytes = scratch_bytes_;
  auto add = [&](const ir::Type& tile) { bytes += tile.numel() * tile.element_bytes(); };
  ir::walk(kernel_.body, [&](const ir::Op& op) {
    if (op.is(Opcode::ViewLoad)) add(op.result()->type);
    if (op.is(Opcode::ViewStore)) add(op.stored_value()->type);
  });
  return bytes;
}

Value* KernelEmitter::index_constant(std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); }

// Prefetches what a load, which is evaluated at `at`, will read soon.
void KernelEmitter::prefetch(Nest& nest, const ir::Op& load, const Access& access, const Indices& at) {
  nest.loads.insert(&load);
  if (nest.guarded || access.step != 1 || nest.lanes == 1) return;
  if (fills_operand_of_dot(nest, load)) return prefetch_next_row(nest, load, at);
  if (times_read_.count(&load) == 0) prefetch_ahead(nest, load, access);
  if (load.operand(0)->type.view_rank > 1 && prefetches_tile_below(nest, load))
    prefetch_below(nest.lanes, load, access, at);
}

// Whether a nest computes an operand of a product, such as bytes that become floats, from contiguous rows.
bool KernelEmitter::fills_operand_of_dot(const Nest& nest, const ir::Op& load) const {
  if (loops_.empty() || nest.roots.size() != 1 || nest.roots[0].kind != Root::Kind::Fill ||
      load.integers("axes").size() < 2 || load.integers("axes").back() != load.operand(0)->type.view_rank - 1)
    return false;
  const auto multiplied = [&](auto&& self, const ir::Value* v) -> bool {
    const auto users = users_.find(v);
    return users != users_.end() &&
           std::all_of(users->second.begin(), users->second.end(), [&](const ir::Op* user) {
             return user->is(Opcode::Dot) || (user->is(Opcode::Permute) && self(self, user->result()));
           });
  };
  return multiplied(multiplied, nest.roots[0].value);
}

// Prefetches further on in the row. Non-temporal stores hide the other accesses of a loop from a Granite
// Rapids' prefetchers, so that a loop of long computations waits for each line (gelu of 128 MiB takes 1.0 ns
// an element; with this prefetch 0.37, with ordinary stores 0.55). Short rows that are far apart are
// excluded, because their next bytes are not read, and so are views of fewer axes than the result, such as a
// norm's weights, which all programs read and the cache holds.
void KernelEmitter::prefetch_ahead(Nest& nest, const ir::Op& load, const Access& access) {
  if (!nest.streaming || !target_.slow_l3) return;
  const ir::Type& view = load.operand(0)->type;
  if (view.view_rank < nest.roots[0].op->operand(0)->type.view_rank) return;
  prefetch_lines(b_, b_.CreateGEP(b_.getInt8Ty(), access.address, bytes_ahead(load.operand(0))),
                 nest.lanes * size_of(view.dtype), Cache::L2);
}

// Returns 0, which prefetches the current line again, where the end of the row is near and the next row does
// not follow in memory.
Value* KernelEmitter::bytes_ahead(const ir::Value* view) {
  constexpr std::int64_t ahead = tuning::streaming_prefetch_bytes;
  const auto rank = static_cast<std::size_t>(view->type.view_rank);
  if (rank == 1) return index_constant(ahead);
  ViewFacts& v = facts(view);
  if (v.ahead) return v.ahead;
  IRBuilder::InsertPointGuard guard(b_);
  b_.SetInsertPoint(entry_end_);
  Value* columns = v.extents[rank - 1];
  Value* is_long =
      b_.CreateICmpSGE(columns, index_constant(tuning::min_streaming_row_bytes / size_of(view->type.dtype)));
  Value* follows = b_.CreateICmpEQ(v.strides[rank - 2], columns);
  return v.ahead = b_.CreateSelect(b_.CreateOr(is_long, follows), index_constant(ahead), index_constant(0));
}

// Whether a nest prefetches the tile below the one that it reads.
//
// The first nest that reads a tile waits for memory; later nests find the tile in the cache and compute. One
// of these therefore prefetches what the next program reads first: the tile below this one. Rows of softmax
// then arrive from memory while exponentials are computed. By default the second nest prefetches. Where L3 is
// slow (tuning.h) it is the last nest of those that execute whenever the second does, so that the prefetched
// data does not leave L2 before it is read.
//
// A second nest that evaluates no functions, such as a norm's, ends before memory has answered; then all
// nests prefetch.
bool KernelEmitter::prefetches_tile_below(const Nest& nest, const ir::Op& load) {
  const auto read = times_read_.find(&load);
  const int nests_before = read == times_read_.end() ? 0 : read->second;
  const ir::Type& tile = load.result()->type;
  const std::int64_t bytes = tile.numel() * tile.element_bytes();
  Prefetches& made = prefetches_[&load];
  if (target_.slow_l3) {
    if (nests_before == 0 || program_bytes() + bytes >= target_.l2_bytes / tuning::program_share_of_l2)
      return false;
    if (made.nest != 0 && made.nest != nests_before) {
      if (made.scope != scope_) return false;
      discard_prefetches(made);
    }
    made.nest = nests_before, made.scope = scope_;
    return true;
  }
  const bool for_all =
      bytes >= tuning::min_l2_prefetched_bytes && bytes <= tuning::max_bytes_prefetched_by_all_nests;
  if (nests_before == 0) return for_all; // as long as the second nest is not known
  if (made.nest == 0) {
    const bool functions = evaluates_functions(nest);
    made.nest = nests_before;
    made.by_all = for_all && !functions;
    made.by_one = !made.by_all && (functions || bytes >= tuning::min_l2_prefetched_bytes);
    if (!made.by_all) discard_prefetches(made);
  }
  return made.by_all || (made.by_one && made.nest == nests_before);
}

void KernelEmitter::discard_prefetches(Prefetches& made) {
  unwanted_prefetches_.insert(unwanted_prefetches_.end(), made.calls.begin(), made.calls.end());
  made.calls.clear();
}

// Deletes the discarded prefetches, and the prefetches of first nests of tiles that no other nest reads,
// together with addresses that nothing else uses. Must be called after everything else is emitted.
void KernelEmitter::finish_prefetches() {
  for (auto& [load, made] : prefetches_)
    if (made.nest == 0) discard_prefetches(made);
  for (llvm::WeakVH& handle : unwanted_prefetches_) {
    if (!handle) continue;
    auto* call = llvm::cast<llvm::CallInst>(handle);
    Value* address = call->getArgOperand(0);
    call->eraseFromParent();
    llvm::RecursivelyDeleteTriviallyDeadInstructions(address);
  }
}

// Prefetches the tile below. Other threads may be writing below the last row of the view, and in the next row
// where a result replaces its operand; prefetches would take their lines away (2 rows of 128 KiB took two
// threads 22 us, and 9 without). Therefore nothing outside of the view is prefetched, and nothing of views
// that fit the caches.
void KernelEmitter::prefetch_below(int lanes, const ir::Op& load, const Access& access, const Indices& at) {
  const ir::Type& tile = load.result()->type;
  const std::int64_t tile_bytes = tile.numel() * tile.element_bytes();
  const auto& axes = load.integers("axes");
  const bool tall = !axes.empty() && axes[0] == 0; // else the tile is one row
  Value* rows = index_constant(tall ? tile.shape[0].value() : 1);
  const ViewFacts& v = facts(load.operand(0));
  Value* row = scalar(load.view_offsets()[0]);
  if (tall) row = b_.CreateAdd(row, at[0].base);
  Value* stride_bytes = b_.CreateMul(v.strides[0], index_constant(tile.element_bytes()));
  Value* large = b_.CreateICmpSGE(b_.CreateMul(v.extents[0], stride_bytes),
                                  index_constant(tuning::min_prefetched_view_l2s * target_.l2_bytes));
  Value* inside = b_.CreateICmpSLT(b_.CreateAdd(row, rows), v.extents[0]);
  Value* distance = b_.CreateSelect(b_.CreateAnd(large, inside), b_.CreateMul(stride_bytes, rows),
                                    index_constant(0)); // which prefetches the current line again
  Value* below = b_.CreateGEP(b_.getInt8Ty(), access.address, distance);
  const Cache into = tile_bytes >= tuning::min_l2_prefetched_bytes ? Cache::L2 : Cache::L1;
  for (llvm::Instruction* call : prefetch_lines(b_, below, lanes * tile.element_bytes(), into))
    prefetches_[&load].calls.emplace_back(call);
}

} // namespace kiln::cpu
