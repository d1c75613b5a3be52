// Emits gathers, scatters and accesses through pointers.
//
// Lanes that are contiguous in memory, or a constant few elements apart, are loaded as contiguous vectors and
// shuffled.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/cpu/tuning.h>
#include <kiln/jit/passes/index_tiles.h>

#include <algorithm>
#include <cstdlib>
#include <llvm/Analysis/VectorUtils.h>

namespace kiln::cpu {

using ir::Opcode;
using llvm::Value;

namespace {

bool is_step(std::optional<std::int64_t> step) {
  return step && *step != 0 && *step >= -tuning::max_shuffled_step && *step <= tuning::max_shuffled_step;
}

} // namespace

// The axis of a tile along which all lanes are consecutive; -1 if there is none.
int KernelEmitter::axis_of_lanes(const Indices& at) {
  int found = -1;
  for (std::size_t axis = 0; axis < at.size(); ++axis) {
    if (at[axis].lanes || (at[axis].linear && found >= 0)) return -1;
    if (at[axis].linear) found = static_cast<int>(axis);
  }
  return found;
}

Indices KernelEmitter::first_lane(Indices at) {
  for (Index& index : at)
    index.linear = false, index.lanes = nullptr;
  return at;
}

// Makes the fast part end before the indices of a view's axis leave it, where they grow by `step` from lane
// to lane. Returns false if that place cannot be computed before the loop.
bool KernelEmitter::ends_fast_part(Nest& nest, const ir::Value* index, std::int64_t step, int axis,
                                   const Indices& at, Value* extent) {
  Indices before = at; // at the first element of the loop
  before[static_cast<std::size_t>(axis)] = Index{b_.getInt64(0)};
  auto known_before = [&](const Index& i) { return i.uniform() && i.direct && i.depth <= nest.limit_depth; };
  if (nest.guarded || !at[static_cast<std::size_t>(axis)].direct ||
      !std::all_of(before.begin(), before.end(), known_before))
    return false;
  // All vectors of an unrolled body share one limit.
  if (!nest.limited.insert({key_of(index, before, 0), extent, nest.lanes, axis}).second) return true;
  Value* first = element_before(nest, nest.limit_point, index, before);
  IRBuilder::InsertPointGuard keep(b_);
  b_.SetInsertPoint(nest.limit_point);
  Value *zero = b_.getInt64(0), *one = b_.getInt64(1);
  Value* inside = b_.CreateICmpULT(first, extent);
  if (step == 0) {
    limit_unless(nest, inside);
    return true;
  }
  // The lanes up to the extent, or down to the first element.
  Value* room = step > 0 ? b_.CreateSub(b_.CreateSub(extent, first), one) : first;
  if (step != 1 && step != -1)
    room = b_.CreateUDiv(
        room, b_.getInt64(step < 0 ? -static_cast<std::uint64_t>(step) : static_cast<std::uint64_t>(step)));
  limit_lanes(nest, b_.CreateSelect(inside, b_.CreateAdd(room, one), zero));
  return true;
}

KernelEmitter::Access KernelEmitter::gather_access(Nest& nest, const ir::Op& op, const Indices& at) {
  const ir::Value* view = op.operand(0);
  ViewFacts& v = facts(view);
  Access access;
  auto indices = op.view_offsets();
  const int axis = axis_of_lanes(at);
  for (std::size_t a = 0; a < indices.size(); ++a) {
    const auto step = axis >= 0 ? passes::step_along(indices[a], axis) : std::nullopt;
    if (step && ends_fast_part(nest, indices[a], *step, axis, at, v.extents[a])) continue;
    Value *compared = operand_element(nest, indices[a], at), *extent = v.extents[a];
    match_lanes(b_, compared, extent);
    access.mask = mask_and(access.mask, b_.CreateICmpULT(compared, extent));
  }
  // Lanes beyond the tile may be read, since the view's bounds are checked for them as well.
  if (const ir::Value* mask = op.mask()) access.mask = mask_and(access.mask, operand_element(nest, mask, at));
  const auto step = axis >= 0 ? passes::step_in_memory(op, axis) : std::nullopt;
  access.step = is_step(step) ? chosen_step(op, *step, access.mask) : 0;
  if (access.step == 1 && op.is(Opcode::ViewGather)) prefetch_next_row(nest, op, at);
  const Indices place = access.step != 0 ? first_lane(at) : at;
  Value* position = b_.getInt64(0);
  for (std::size_t a = 0; a < indices.size(); ++a) {
    Value *index = operand_element(nest, indices[a], place), *stride = v.strides[a];
    match_lanes(b_, index, stride);
    Value* part = b_.CreateMul(index, stride);
    match_lanes(b_, position, part);
    position = b_.CreateAdd(position, part);
  }
  access.address = b_.CreateGEP(memory_type(context_, view->type.dtype), v.data, position);
  access.address = mapped(nest, access);
  return access;
}

KernelEmitter::Access KernelEmitter::pointer_access(Nest& nest, const ir::Op& op, const Indices& at) {
  Access access;
  access.align = static_cast<int>(op.integer("align"));
  const int axis = axis_of_lanes(at);
  const auto step = axis >= 0 ? passes::step_in_memory(op, axis) : std::nullopt;
  if (const ir::Value* mask = op.mask()) access.mask = mask_and(operand_element(nest, mask, at), nullptr);
  // No view gives the end of the memory.
  Value* mask = mask_and(access.mask, nest.tail);
  access.step = is_step(step) ? chosen_step(op, *step, mask) : 0;
  access.address = operand_element(nest, op.operand(0), access.step != 0 ? first_lane(at) : at);
  if (access.step != 0) access.mask = mask;
  access.address = mapped(nest, access);
  return access;
}

// Returns `step`, or 0 if each lane needs its own address.
int KernelEmitter::chosen_step(const ir::Op& op, std::int64_t step, Value* mask) {
  const bool whole = op.info().effect == ir::Effect::Read && !mask;
  return step == 1 || whole ? static_cast<int>(step) : 0;
}

// Loads lanes that are `step` elements apart: the vectors that cover them, of which the last ends where the
// lanes end, so that nothing past them is read.
Value* KernelEmitter::load_steps(Nest& nest, const Access& access, llvm::Type* element, llvm::Align align) {
  const int lanes = nest.lanes, apart = std::abs(access.step);
  const int span = apart * (lanes - 1) + 1, lowest = access.step < 0 ? 1 - span : 0;
  Values vectors;
  for (int k = 0; k < apart; ++k) {
    const int first = k + 1 < apart ? k * lanes : span - lanes;
    Value* address =
        b_.CreateGEP(element, access.address, b_.getInt64(static_cast<std::uint64_t>(lowest + first)));
    vectors.push_back(b_.CreateAlignedLoad(lanes_type(element, lanes), address, align));
  }
  std::vector<int> order;
  for (int l = 0; l < lanes; ++l) {
    const int at = l * access.step - lowest;
    order.push_back(at < (apart - 1) * lanes ? at : (apart - 1) * lanes + at - (span - lanes));
  }
  return b_.CreateShuffleVector(llvm::concatenateVectors(b_, vectors), order);
}

// Loads lanes that are a run-time distance apart, one by one. The processor's gather takes as long where the
// elements lie in L1, and longer the farther away they are, since fewer gathers than loads wait for memory at
// once. On Zen 4 a vector of every third float of 16 MiB takes 9 ns with loads, and 45 ns with a gather.
Value* KernelEmitter::load_apart(Nest& nest, const Access& access, llvm::Type* element, llvm::Align align) {
  Value* vector = llvm::PoisonValue::get(lanes_type(element, nest.lanes));
  const Values addresses = addresses_apart(nest, access, element);
  for (std::size_t lane = 0; lane < addresses.size(); ++lane)
    vector = b_.CreateInsertElement(vector, b_.CreateAlignedLoad(element, addresses[lane], align), lane);
  return vector;
}

void KernelEmitter::store_apart(Nest& nest, const Access& access, Value* bits, llvm::Align align) {
  const Values addresses = addresses_apart(nest, access, bits->getType()->getScalarType());
  for (std::size_t lane = 0; lane < addresses.size(); ++lane)
    b_.CreateAlignedStore(b_.CreateExtractElement(bits, lane), addresses[lane], align);
}

// The addresses of lanes that are a run-time distance apart: four lanes from one pointer, which then
// advances. A loop keeps four distances in registers, where one distance for each lane would be spilled.
Values KernelEmitter::addresses_apart(Nest& nest, const Access& access, llvm::Type* element) {
  constexpr int together = tuning::lanes_per_pointer;
  auto distance = [&](int lanes) {
    return b_.CreateMul(access.stride, b_.getInt64(static_cast<std::uint64_t>(lanes)));
  };
  Values addresses;
  Value* first = access.address;
  for (int lane = 0; lane < nest.lanes; ++lane) {
    if (lane > 0 && lane % together == 0) first = b_.CreateGEP(element, first, distance(together));
    addresses.push_back(lane % together == 0 ? first
                                             : b_.CreateGEP(element, first, distance(lane % together)));
  }
  return addresses;
}

} // namespace kiln::cpu
