// Emits gathers from tiles and histograms.
//
// The tile of a gather is in a buffer (facts/plan.h). Lanes whose indices increase or decrease by one, as
// those of a slice and of a reversed tile do, are loaded as one vector.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/passes/index_tiles.h>

#include <algorithm>
#include <numeric>

namespace kiln::cpu {

using llvm::Value;

namespace {

Value* reversed(IRBuilder& b, Value* v) {
  std::vector<int> order(static_cast<std::size_t>(lanes_of(v)));
  std::iota(order.rbegin(), order.rend(), 0);
  return b.CreateShuffleVector(v, order);
}

Value* zero_like(const Value* v) { return llvm::Constant::getNullValue(v->getType()); }

} // namespace

Value* KernelEmitter::gathered(Nest& nest, const ir::Op& op, const Indices& at) {
  const ir::Value *tile = op.operand(0), *index = op.operand(1);
  const auto axis = static_cast<std::size_t>(op.integer("axis"));
  const std::int64_t extent = tile->type.shape[axis].value();
  const Buffer& buffer = own_buffer(tile);
  const auto range = passes::index_range(index);
  const bool always_inside = range && range->low >= 0 && range->high < extent;
  auto inside = [&](Value* i) { // i1 for each lane
    return b_.CreateICmpULT(i, llvm::ConstantInt::get(i->getType(), static_cast<std::uint64_t>(extent)));
  };
  auto as_index = [&](Value* i) { return b_.CreateSExtOrTrunc(i, same_lanes(b_.getInt64Ty(), i)); };

  const int along = nest.lanes > 1 ? axis_of_lanes(at) : -1;
  const auto step = along >= 0 ? passes::step_along(index, along) : std::nullopt;
  const bool neighbours = step && (*step == 1 || *step == -1) && static_cast<std::size_t>(along) == axis &&
                          buffer.strides[axis] == 1 && !buffer.is_pointer;
  if (neighbours) {
    // Lanes outside of the tile or past its end must not read other memory.
    Value* first = as_index(operand_element(nest, index, first_lane(at)));
    Value* numbers = b_.CreateMul(lane_numbers(b_, nest.lanes),
                                  widen(b_, b_.getInt64(static_cast<std::uint64_t>(*step)), nest.lanes));
    Value* lanes = b_.CreateAdd(widen(b_, first, nest.lanes), numbers);
    Value* mask = mask_and(always_inside ? nullptr : inside(lanes), nest.tail);
    Indices place = first_lane(at);
    place[axis] = Index{
        *step == 1 ? first : b_.CreateSub(first, b_.getInt64(static_cast<std::uint64_t>(nest.lanes - 1)))};
    llvm::Type* type = lanes_type(memory_type(context_, buffer.dtype), nest.lanes);
    const llvm::Align align(static_cast<unsigned>(size_of(buffer.dtype)));
    Value* address = buffer_address(buffer, place);
    if (mask && *step == -1) mask = reversed(b_, mask);
    Value* bits = mask ? b_.CreateMaskedLoad(type, address, align, mask, llvm::Constant::getNullValue(type))
                       : static_cast<Value*>(b_.CreateAlignedLoad(type, address, align));
    return from_memory(b_, numbers_, *step == 1 ? bits : reversed(b_, bits), buffer.dtype);
  }

  Value* i = operand_element(nest, index, at);
  Value* valid = always_inside ? nullptr : inside(i);
  if (valid) i = b_.CreateSelect(valid, i, zero_like(i));
  Indices place = at;
  place[axis] = is_vector(i) ? Index{b_.getInt64(0), false, as_index(i)} : Index{as_index(i)};
  Value* v = load_buffer(nest, buffer, place);
  if (!valid) return v;
  match_lanes(b_, v, valid);
  return b_.CreateSelect(valid, v, zero_like(v));
}

// Counts element by element: neighbours may be equal.
void KernelEmitter::emit_histogram(const ir::Op& op) {
  flush();
  const ir::Value *x = op.operand(0), *result = op.result();
  const std::int64_t bins = result->type.numel();
  const Buffer elements = materialize(x);
  Buffer& counts = own_buffer(result);
  locate(op);
  b_.CreateMemSet(counts.pointer, b_.getInt8(0), static_cast<std::uint64_t>(bins) * 4, llvm::Align(4));
  emit_each_element(extents_of(x->type), [&](Nest& nest, const Indices& at) {
    Value* bin = b_.CreateIntCast(load_buffer(nest, elements, at), b_.getInt64Ty(), is_signed(x->type.dtype));
    Value* counted = b_.CreateICmpULT(bin, b_.getInt64(static_cast<std::uint64_t>(bins)));
    if (const ir::Value* mask = op.mask()) counted = mask_and(counted, operand_element(nest, mask, at));
    // An element that is not counted adds zero to some count, which takes less time than a branch.
    Value* address = buffer_address(counts, {Index{b_.CreateSelect(counted, bin, b_.getInt64(0))}});
    Value* count = b_.CreateAlignedLoad(b_.getInt32Ty(), address, llvm::Align(4));
    b_.CreateAlignedStore(b_.CreateAdd(count, b_.CreateZExt(counted, b_.getInt32Ty())), address,
                          llvm::Align(4));
  });
}

} // namespace kiln::cpu
