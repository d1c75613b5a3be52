// Finds where the next iteration of a loop reads, so that it can be prefetched during this one.
//
// The scalars that give the place of a tile are computed again for the next value of the loop's index. Some
// are loaded, such as the number of a page from a table. After its last iteration a loop has no next one,
// but what would follow is often what the next program reads.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/cpu/facts/program_slice.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/emit/prefetch.h>

#include <algorithm>
#include <utility>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

// The value of a scalar in the next iteration of the innermost loop, or null if it cannot be computed now.
// `known` holds those that are already computed here.
Value* KernelEmitter::next_scalar(const ir::Value* v, std::unordered_map<const ir::Value*, Value*>& known) {
  if (v == loops_.back().index) return loops_.back().next;
  if (auto found = known.find(v); found != known.end()) return found->second;
  const auto current = scalars_.find(v);
  if (!v->type.is_scalar() || current == scalars_.end()) return known[v] = nullptr;
  Value* const here = current->second;
  const ir::Op* op = v->def;
  if (!op) { // a parameter, or carried by a loop: the innermost one gives it a value that is not known yet
    const auto& args = loops_.back().index->region->args;
    const bool carried =
        std::any_of(args.begin(), args.end(), [&](const auto& arg) { return arg.get() == v; });
    return known[v] = carried ? nullptr : here;
  }
  if (!computes_one_value(*op)) return known[v] = nullptr;
  std::vector<std::pair<const ir::Value*, Value*>> changed; // operands and their next values
  for (const ir::Value* operand : op->operands) {
    if (operand->type.is_view()) continue;
    Value* next = next_scalar(operand, known);
    if (!next) return known[v] = nullptr;
    if (next != scalar(operand)) changed.emplace_back(operand, next);
  }
  if (changed.empty()) return known[v] = here;
  auto swap = [&] {
    for (auto& [operand, value] : changed)
      std::swap(scalars_[operand], value);
  };
  swap();
  emit_scalar(*op);
  swap();
  return known[v] = std::exchange(scalars_[v], here);
}

// The distance in bytes from the tile that a load reads to the one that it reads in the next iteration. It is
// 0 if that tile begins outside of the view, and null if the place of the tile does not follow from the index
// of the loop.
Value* KernelEmitter::bytes_to_next_tile(const ir::Op& load) {
  if (loops_.empty()) return nullptr;
  const ViewFacts& view = facts(load.operand(0));
  std::unordered_map<const ir::Value*, Value*> known;
  Value *elements = b_.getInt64(0), *inside = b_.getTrue();
  bool moves = false;
  const auto offsets = load.view_offsets();
  for (std::size_t axis = 0; axis < offsets.size(); ++axis) {
    Value *now = scalar(offsets[axis]), *next = next_scalar(offsets[axis], known);
    if (!next) return nullptr;
    if (next == now) continue;
    moves = true;
    inside = b_.CreateAnd(inside, b_.CreateICmpULT(next, view.extents[axis]));
    elements = b_.CreateAdd(elements, b_.CreateMul(b_.CreateSub(next, now), view.strides[axis]));
  }
  if (!moves) return nullptr;
  const int size = size_of(load.operand(0)->type.dtype);
  return b_.CreateSelect(inside, b_.CreateMul(elements, b_.getInt64(static_cast<std::uint64_t>(size))),
                         b_.getInt64(0));
}

// Finds what changes in the next iteration among the values from which an index is computed. Returns false if
// some of them cannot be computed now.
bool KernelEmitter::follow_to_next(const ir::Value* v, NextIteration& next) {
  if (!next.seen.insert(v).second || v->type.is_view()) return true;
  if (v->type.is_scalar()) {
    Value* value = next_scalar(v, next.scalars);
    if (value && value != scalar(v)) next.changed.emplace_back(v, value);
    return value != nullptr;
  }
  if (!v->def || !computes_one_value(*v->def)) return false;
  if (plan_.has_buffer(v)) next.buffered.push_back(v);
  return std::all_of(v->def->operands.begin(), v->def->operands.end(),
                     [&](const ir::Value* operand) { return follow_to_next(operand, next); });
}

// Prefetches the row that the next iteration loads or gathers in place of the row at `at`, before the loop
// over its lanes. The index of a gathered row is computed again, by single elements, for which the buffers of
// the current indices are of no use.
void KernelEmitter::prefetch_next_row(Nest& nest, const ir::Op& load, const Indices& at) {
  const ir::Type& tile = load.result()->type;
  const std::int64_t bytes = tile.shape.back().value() * tile.element_bytes();
  if (loops_.empty() || nest.guarded || !nest.hoist_point || at.size() < 2 || !at.back().linear ||
      bytes > tuning::max_prefetched_row_bytes)
    return;
  Indices row = at;
  row.back() = Index{b_.getInt64(0)};
  if (depth_of(row) >= nest.hoist_depth || !nest.prefetched.insert(key_of(load.result(), row, 0)).second)
    return;
  IRBuilder::InsertPointGuard keep(b_);
  b_.SetInsertPoint(nest.hoist_point);
  if (load.is(Opcode::ViewLoad)) {
    Value* to_next = bytes_to_next_tile(load);
    if (!to_next) return;
    Value* address = view_access(nest, load, row, /*address_only=*/true).address;
    prefetch_lines(b_, b_.CreateGEP(b_.getInt8Ty(), address, to_next), bytes, Cache::L2);
    return;
  }
  NextIteration next;
  const auto indices = load.view_offsets();
  for (const ir::Value* index : indices)
    if (!follow_to_next(index, next)) return;
  if (next.changed.empty()) return;
  const auto being_filled = nest.being_filled;
  nest.being_filled.insert(next.buffered.begin(), next.buffered.end());
  auto swap = [&] {
    for (auto& [v, value] : next.changed)
      std::swap(scalars_[v], value);
  };
  swap();
  const ViewFacts& view = facts(load.operand(0));
  Value* position = b_.getInt64(0);
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    Value* index = indices[axis]->type.is_tile() ? element_before(nest, nest.hoist_point, indices[axis], row)
                                                 : scalar(indices[axis]);
    index = b_.CreateSExt(index, b_.getInt64Ty());
    position = b_.CreateAdd(position, b_.CreateMul(index, view.strides[axis]));
  }
  swap();
  nest.being_filled = being_filled;
  prefetch_lines(b_, b_.CreateGEP(memory_type(context_, tile.dtype), view.data, position), bytes, Cache::L2);
}

} // namespace kiln::cpu
