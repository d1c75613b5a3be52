// Emits transposed stores, which are contiguous along the loop around the vector loop.
//
// They mirror transposed loads: the vectors of a block of rows are collected, transposed in registers, and
// stored as lines along the outer loop.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/emit/prefetch.h>
#include <kiln/jit/emit/transpose.h>

#include <algorithm>
#include <bit>
#include <numeric>

namespace kiln::cpu {

using llvm::Value;

// Keeps the vector `v` of a transposed store, and stores the block with its last vector. Returns false for
// other stores.
bool KernelEmitter::transposed_store(Nest& nest, const ir::Op& op, const Indices& at, Value* v) {
  const auto store = nest.transposed_stores.find(&op);
  if (nest.guarded || nest.rows.empty() || nest.lanes != nest.loop_lanes ||
      store == nest.transposed_stores.end())
    return false;
  const auto [row, column] = store->second;
  internal_check(!view_access(nest, op, at).mask, "a transposed store needs a mask");
  Values& rows = nest.collected[&op];
  rows.push_back(widen(b_, v, nest.lanes));
  const auto count = static_cast<std::size_t>(nest.block);
  if (rows.size() < count) return true;

  const ir::Value* view = op.operand(0);
  const auto here = std::find(nest.rows.begin(), nest.rows.end(), at[row].base);
  Indices corner = at;
  corner[row].base = *(here - static_cast<std::ptrdiff_t>(count - 1));
  corner[column].linear = false;
  Value* address = view_access(nest, op, corner, /*address_only=*/true).address;
  Value* stride = facts(view).strides[static_cast<std::size_t>(op.integers("axes")[column])];
  const Values block = std::exchange(rows, {});
  if (!interleaves(nest))
    store_lines(nest, view, block, address, stride);
  else
    emit_if_else(
        b_, follows(nest, stride), [&] { store_interleaved(view, block, address); },
        [&] { store_lines(nest, view, block, address, stride); });
  return true;
}

// Transposes the rows of a block, and stores the part of each column that is in the block.
void KernelEmitter::store_lines(Nest& nest, const ir::Value* view, Values rows, Value* address,
                                Value* stride) {
  const DType dtype = view->type.dtype;
  const auto lanes = static_cast<std::size_t>(nest.lanes);
  const std::size_t count = rows.size(), length = std::min(std::bit_ceil(count), lanes);
  for (Value*& row : rows) // as they are in memory, narrow floats take fewer registers
    row = to_memory(b_, numbers_, row, dtype);
  rows.resize(std::max(count, length), llvm::Constant::getNullValue(rows[0]->getType()));
  std::vector<Values> parts(lanes); // of each column
  for (auto first = rows.begin(); first != rows.end(); first += static_cast<std::ptrdiff_t>(length)) {
    Values square(first, first + static_cast<std::ptrdiff_t>(length));
    square = length == lanes
                 ? transposed(b_, std::move(square), target_.sve_bytes ? 8 * target_.sve_bytes : 128)
                 : transposed_squares(b_, std::move(square));
    std::vector<int> order(length);
    for (std::size_t i = 0; i < lanes; ++i) {
      std::iota(order.begin(), order.end(), static_cast<int>(i / length * length));
      parts[i].push_back(b_.CreateShuffleVector(square[i % length], order));
    }
  }
  Values columns, addresses;
  for (std::size_t i = 0; i < lanes; ++i) {
    addresses.push_back(i == 0 ? address
                               : b_.CreateGEP(memory_type(context_, dtype), addresses.back(), stride));
    columns.push_back(joined(b_, parts[i]));
  }
  if (count >= length) return store_streaming(view, columns, addresses, stride);
  const llvm::Align align(static_cast<unsigned>(size_of(dtype)));
  for (std::size_t i = 0; i < lanes; ++i)
    b_.CreateMaskedStore(columns[i], addresses[i], align, first_lanes(count, length));
}

// Stores narrow rows that follow one another as whole vectors.
void KernelEmitter::store_interleaved(const ir::Value* view, const Values& rows, Value* address) {
  const DType dtype = view->type.dtype;
  Values vectors = interleaved(b_, rows), addresses;
  for (std::size_t k = 0; k < vectors.size(); ++k) {
    vectors[k] = to_memory(b_, numbers_, vectors[k], dtype);
    addresses.push_back(b_.CreateConstGEP1_64(vectors[k]->getType(), address, k));
  }
  store_streaming(view, vectors, addresses, nullptr);
}

// Stores vectors, which bypass the caches if the view is large and they are whole lines, or follow one
// another (`stride` is null) and are aligned.
void KernelEmitter::store_streaming(const ir::Value* view, const Values& vectors, const Values& addresses,
                                    Value* stride) {
  const int element_bytes = size_of(view->type.dtype), bytes = lanes_of(vectors[0]) * element_bytes;
  auto store = [&](bool streaming) {
    const llvm::Align align(static_cast<unsigned>(streaming ? bytes : element_bytes));
    for (std::size_t k = 0; k < vectors.size(); ++k) {
      auto* stored = b_.CreateAlignedStore(vectors[k], addresses[k], align);
      if (streaming)
        stored->setMetadata(llvm::LLVMContext::MD_nontemporal,
                            llvm::MDNode::get(context_, llvm::ConstantAsMetadata::get(b_.getInt32(1))));
    }
  };
  if (stride ? bytes != line_bytes : bytes < 16) return store(false);
  Value* places = b_.CreatePtrToInt(addresses[0], b_.getInt64Ty());
  if (stride)
    places =
        b_.CreateOr(places, b_.CreateMul(stride, b_.getInt64(static_cast<std::uint64_t>(element_bytes))));
  Value* past = b_.CreateAnd(places, b_.getInt64(static_cast<std::uint64_t>(bytes - 1)));
  Value* streams = b_.CreateAnd(is_large(view), b_.CreateICmpEQ(past, b_.getInt64(0)));
  emit_if_else(b_, streams, [&] { store(true); }, [&] { store(false); });
}

} // namespace kiln::cpu
