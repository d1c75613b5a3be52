// Emits the ends of loops over tiles, beyond which no result needs the elements (facts/needed_extents.h).
#include <kiln/jit/cpu/emit/kernel_emitter.h>

#include <kiln/jit/passes/rewrite_rules.h>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

// Emits an offset that is plain arithmetic on the program's position in the grid, so that it can be computed
// anywhere in the program, and also for another program than the one whose scalars were computed last.
// Returns null if the offset is something else, or differs among the programs that share the current
// computation.
Value* KernelEmitter::place_of_program(const ir::Value* v, int depth) {
  constexpr int deepest = 8;
  if (auto cell = passes::constant_of(v))
    return b_.getInt64(static_cast<std::uint64_t>(static_cast<std::int64_t>(*cell)));
  if (!v->def || v->type.dtype != DType::I64 || depth == deepest) return nullptr;
  const ir::Op& op = *v->def;
  switch (op.code) {
  case Opcode::ProgramId:
    if (shared_along_ >> op.integer("axis") & 1) return nullptr;
    return coordinates_[static_cast<std::size_t>(op.integer("axis"))];
  case Opcode::NumPrograms: return grid_[static_cast<std::size_t>(op.integer("axis"))];
  case Opcode::ViewExtent: return facts(op.operand(0)).extents[static_cast<std::size_t>(op.integer("axis"))];
  case Opcode::Add:
  case Opcode::Sub:
  case Opcode::Mul: break;
  default: return nullptr;
  }
  Value *x = place_of_program(op.operand(0), depth + 1), *y = place_of_program(op.operand(1), depth + 1);
  if (!x || !y) return nullptr;
  return op.is(Opcode::Add)   ? b_.CreateAdd(x, y)
         : op.is(Opcode::Sub) ? b_.CreateSub(x, y)
                              : b_.CreateMul(x, y);
}

// The largest room of any of `each`. Null if there are none, or if the room of one is not known.
template <class Each, class Room> Value* KernelEmitter::most_room(const Each& each, Room room_of) {
  Value* most = nullptr;
  for (const auto& one : each) {
    Value* room = room_of(one);
    if (!room) return nullptr;
    most = most ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, most, room) : room;
  }
  return most;
}

// How many elements of `tile` along `axis`, from the first on, are stored by the stores that alone need them.
// The number may be negative or larger than the extent. Null if all elements may be needed.
Value* KernelEmitter::needed_room(const ir::Value* tile, std::size_t axis) {
  return most_room(needed_.stores(tile, axis), [&](const StoredAxis& s) -> Value* {
    const auto of_view = static_cast<std::size_t>(s.store->integers("axes")[s.axis]);
    Value* offset = place_of_program(s.store->view_offsets()[of_view]);
    return offset ? b_.CreateSub(facts(s.store->operand(0)).extents[of_view], offset) : nullptr;
  });
}

// `extent`, or the part of it that is needed.
Value* KernelEmitter::needed_extent(const ir::Value* tile, std::size_t axis, Value* extent) {
  Value* room = needed_room(tile, axis);
  if (!room) return extent;
  room = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, room, b_.getInt64(0));
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, room, extent);
}

// The needed room of what a root computes, along an axis of the domain that it does not reduce.
Value* KernelEmitter::needed_room(const Root& root, std::size_t axis) {
  if (root.kind == Root::Kind::Fill) return needed_room(root.value, axis);
  if (!root.carries_values()) return nullptr;
  const bool removed =
      root.kind == Root::Kind::Reduce && static_cast<std::int64_t>(axis) > root.op->integer("axis");
  std::vector<const ir::Value*> used;
  for (const auto& result : root.op->results) {
    const auto users = users_.find(result.get());
    if (users != users_.end() && !users->second.empty()) used.push_back(result.get());
  }
  return most_room(used, [&](const ir::Value* result) { return needed_room(result, axis - removed); });
}

// Bounds the loops around the vector loop where no root needs more rows.
void KernelEmitter::bound_rows(Nest& nest) {
  for (const int outer : nest.outer_axes) {
    const auto axis = static_cast<std::size_t>(outer);
    if (nest.bounds[axis]) continue;
    if (Value* most = most_room(nest.roots, [&](const Root& root) { return needed_room(root, axis); }))
      nest.bounds[axis] = b_.CreateBinaryIntrinsic(
          llvm::Intrinsic::smin, most, b_.getInt64(static_cast<std::uint64_t>(nest.domain[axis])));
  }
}

} // namespace kiln::cpu
