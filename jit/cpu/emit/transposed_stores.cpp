// Emits transposed stores, which are contiguous along the loop around the vector loop.
//
// They mirror transposed loads: the vectors of a block of rows are collected, transposed in registers, and
// stored as lines along the outer loop.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/emit/transpose.h>

#include <algorithm>
#include <bit>
#include <numeric>

namespace kiln::cpu {

using llvm::Value;

// Keeps the vector `v` of a transposed store, and stores the block with its last vector. Returns false for other
// stores.
bool KernelEmitter::transposed_store(Nest& nest, const ir::Op& op, const Indices& at, Value* v) {
  const auto store = nest.transposed_stores.find(&op);
  if (nest.guarded || nest.rows.empty() || nest.lanes != nest.loop_lanes ||
      store == nest.transposed_stores.end())
    return false;
  const auto [row, column] = store->second;
  internal_check(!view_access(nest, op, at).mask, "a transposed store needs a mask");
  Values& rows = nest.collected[&op];
  rows.push_back(widen(b_, v, nest.lanes));
  const auto count = static_cast<std::size_t>(std::min(nest.lanes, nest.block));
  if (rows.size() < count) return true;

  const ir::Value* view = op.operand(0);
  const DType dtype = view->type.dtype;
  const llvm::Align align(static_cast<unsigned>(size_of(dtype)));
  llvm::Type* element = memory_type(context_, dtype);
  const auto here = std::find(nest.rows.begin(), nest.rows.end(), at[row].base);
  Indices corner = at;
  corner[row].base = *(here - static_cast<std::ptrdiff_t>(count - 1));
  corner[column].linear = false;
  Value* address = view_access(nest, op, corner, /*address_only=*/true).address;
  Value* stride = facts(view).strides[static_cast<std::size_t>(op.integers("axes")[column])];

  const std::size_t length = std::bit_ceil(count);
  Values lines = std::exchange(rows, {});
  lines.resize(length, llvm::Constant::getNullValue(lines[0]->getType()));
  lines = length == static_cast<std::size_t>(nest.lanes)
              ? transposed(b_, std::move(lines), target_.sve_bytes ? 8 * target_.sve_bytes : 128)
              : transposed_squares(b_, std::move(lines));
  for (Value*& line : lines)
    line = to_memory(b_, numbers_, line, dtype);
  std::vector<int> order(length);
  for (int i = 0; i < nest.lanes; ++i) {
    if (i > 0) address = b_.CreateGEP(element, address, stride);
    const auto place = static_cast<std::size_t>(i);
    std::iota(order.begin(), order.end(), static_cast<int>(place / length * length));
    Value* line = b_.CreateShuffleVector(lines[place % length], order);
    if (count == length)
      b_.CreateAlignedStore(line, address, align);
    else
      b_.CreateMaskedStore(line, address, align, first_lanes(count, length));
  }
  return true;
}

} // namespace kiln::cpu
