// Finds where the next iteration of a loop reads, so that it can be prefetched during this one.
//
// The scalars that give the place of a tile are computed again for the next value of the loop's index. Some
// are loaded, such as the number of a page from a table. After its last iteration a loop has no next one,
// but what would follow is often what the next program reads.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/cpu/facts/program_slice.h>

#include <algorithm>
#include <utility>

namespace kiln::cpu {

using llvm::Value;

// The value of a scalar in the next iteration of the innermost loop, or null if it cannot be computed now.
// `known` holds those that are already computed here.
Value* KernelEmitter::next_scalar(const ir::Value* v,
                                  std::unordered_map<const ir::Value*, Value*>& known) {
  if (v == loops_.back().index) return loops_.back().next;
  if (auto found = known.find(v); found != known.end()) return found->second;
  const auto current = scalars_.find(v);
  if (!v->type.is_scalar() || current == scalars_.end()) return known[v] = nullptr;
  Value* const here = current->second;
  const ir::Op* op = v->def;
  if (!op) { // a parameter, or carried by a loop: the innermost one gives it a value that is not known yet
    const auto& args = loops_.back().index->region->args;
    const bool carried = std::any_of(args.begin(), args.end(), [&](const auto& arg) { return arg.get() == v; });
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

} // namespace kiln::cpu
