// Asking for what a view's loads will read: further on in their row, and in the next program's tile.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/cpu/prefetch.h>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

namespace {

// Of tiles that are prefetched. On Zen 4 softmax of rows of 16 to 128 KiB takes a third less so, and of rows
// of 4 KiB a third more; norms gain up to a fifth from 8 KiB on.
constexpr std::int64_t least_bytes_for_second_cache = 8 << 10;

} // namespace

// What a program reads, writes and, so far, keeps in scratch.
std::int64_t KernelEmitter::program_bytes() const {
  std::int64_t bytes = scratch_bytes_;
  auto add = [&](const ir::Type& tile) { bytes += tile.numel() * tile.element_bytes(); };
  ir::walk(kernel_.body, [&](const ir::Op& op) {
    if (op.is(Opcode::ViewLoad)) add(op.result()->type);
    if (op.is(Opcode::ViewStore)) add(op.stored_value()->type);
  });
  return bytes;
}

// Asks for memory that will be read soon, of a load that is evaluated at `at`.
void KernelEmitter::prefetch(Nest& nest, const ir::Op& load, const Access& access, const Indices& at) {
  nest.loads.insert(&load);
  if (nest.guarded || access.step != 1 || nest.lanes == 1) return;
  if (times_read_.count(&load) == 0)
    prefetch_ahead(nest, load, access);
  else if (load.operand(0)->type.view_rank > 1)
    prefetch_below(nest, load, access, at);
}

// Stores past the cache hide from a Granite Rapids' prefetchers what else a loop does: one that computes for
// long then waits for each line (gelu of 128 MiB 1.0 ns an element; past the cache with this 0.37, through it
// 0.55). What has fewer axes than the result, as a norm's weights, is read by all programs and in the cache.
void KernelEmitter::prefetch_ahead(Nest& nest, const ir::Op& load, const Access& access) {
  constexpr std::uint64_t bytes_ahead = 4096;
  if (!nest.streaming || !target_.slow_third_cache) return;
  if (load.operand(0)->type.view_rank < nest.roots[0].op->operand(0)->type.view_rank) return;
  prefetch_lines(b_, b_.CreateConstGEP1_64(b_.getInt8Ty(), access.address, bytes_ahead),
                 nest.lanes * size_of(load.result()->type.dtype), Cache::Second);
}

// The first nest that reads a tile waits for memory, the later ones find it in the cache and compute. So one
// of those fetches what the next program will read first: the tile below this one. Rows of softmax and of
// norms then come from memory while exponentials are computed. It is the second nest, or, where the third
// cache is slow, the last, so that what was fetched does not leave the second cache before it is read; see
// Target. Below the view's last row nothing is asked for: another thread may be writing there, and would lose
// its lines (2 rows of 128 KiB whose result follows them in memory: 20 us on two threads, 8 so).
void KernelEmitter::prefetch_below(Nest& nest, const ir::Op& load, const Access& access, const Indices& at) {
  const int nests_before = times_read_.at(&load);
  Prefetches& made = prefetches_[&load];
  if (made.nest != 0 && made.nest != nests_before) {
    if (!target_.slow_third_cache) return;
    for (llvm::WeakVH& prefetch : made.calls)
      if (prefetch) llvm::cast<llvm::Instruction>(prefetch)->eraseFromParent();
    made.calls.clear();
  }
  made.nest = nests_before;
  const ir::Type& tile = load.result()->type;
  const std::int64_t tile_bytes = tile.numel() * tile.element_bytes();
  if (target_.slow_third_cache && program_bytes() + tile_bytes >= target_.second_cache_bytes / 2) return;
  const auto& axes = load.integers("axes");
  const bool tall = !axes.empty() && axes[0] == 0; // else of one row
  auto number = [&](std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); };
  Value* rows = number(tall ? tile.shape[0].value() : 1);
  ViewFacts& v = facts(load.operand(0));
  Value* row = scalar(load.view_offsets()[0]);
  if (tall) row = b_.CreateAdd(row, at[0].base);
  Value* inside = b_.CreateICmpSLT(b_.CreateAdd(row, rows), v.extents[0]);
  Value* distance = b_.CreateMul(b_.CreateMul(v.strides[0], rows), number(tile.element_bytes()));
  Value* below = b_.CreateGEP(b_.getInt8Ty(), access.address, b_.CreateSelect(inside, distance, number(0)));
  const Cache into = tile_bytes >= least_bytes_for_second_cache ? Cache::Second : Cache::First;
  for (llvm::Instruction* call : prefetch_lines(b_, below, nest.lanes * size_of(tile.dtype), into))
    made.calls.emplace_back(call);
}

} // namespace kiln::cpu
