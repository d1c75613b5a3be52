// Lays tiles out in scratch memory, and emits their addresses, loads and stores.
#include <kiln/jit/cpu/emit/kernel_emitter.h>
#include <kiln/jit/cpu/tuning.h>

#include <bit>

namespace kiln::cpu {

using llvm::Value;

namespace {

constexpr std::int64_t most_lanes = 64;
constexpr std::int64_t most_scratch = std::int64_t{4} << 30;

int vector_axis_of(const std::vector<std::int64_t>& extents) {
  for (int a = static_cast<int>(extents.size()) - 1; a >= 0; --a)
    if (extents[static_cast<std::size_t>(a)] > 1) return a;
  return -1;
}

} // namespace

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> strides(extents.size(), 1);
  for (std::size_t a = extents.size(); a-- > 1;)
    strides[a - 1] = strides[a] * extents[a];
  return strides;
}

bool is_dense(const Buffer& buffer) {
  return !buffer.row_stride && buffer.strides == row_major(buffer.extents);
}

Buffer KernelEmitter::make_buffer(const ir::Type& type) {
  std::int64_t bytes =
      type.numel() * type.element_bytes(); // the tiles of a bound kernel have at most 2**28 elements
  if (scratch_bytes_ + bytes > most_scratch)
    throw UserError("kernel " + kernel_.name + ": a " + type.to_string() + " needs " + std::to_string(bytes) +
                    " bytes of scratch memory, which with the " + std::to_string(scratch_bytes_) +
                    " bytes of other tiles is more than the CPU's 4 GiB; choose smaller sizes");
  return make_buffer(type.dtype, type.pointer, extents_of(type));
}

Buffer KernelEmitter::make_buffer(DType dtype, bool pointer, std::vector<std::int64_t> extents) {
  Buffer buffer;
  buffer.dtype = dtype;
  buffer.is_pointer = pointer;
  buffer.extents = std::move(extents);
  buffer.strides.resize(buffer.extents.size());
  int padded_axis = vector_axis_of(buffer.extents);
  std::int64_t elements = 1;
  for (std::size_t a = buffer.extents.size(); a-- > 0;) {
    buffer.strides[a] = elements;
    std::int64_t extent = buffer.extents[a];
    if (static_cast<int>(a) == padded_axis) {
      auto unit = std::min<std::int64_t>(
          most_lanes, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(extent))));
      extent = (extent + unit - 1) / unit * unit;
    }
    if (__builtin_mul_overflow(elements, extent, &elements) || elements > most_scratch)
      throw UserError(
          "kernel " + kernel_.name +
          ": a tile of this config needs more than 4 GiB of memory on the CPU; choose smaller sizes");
  }
  std::int64_t bytes = elements * (pointer ? 8 : size_of(dtype));
  std::int64_t at = (scratch_bytes_ + 63) / 64 * 64;
  scratch_bytes_ = at + bytes + 64; // one line between buffers, so that neighbours do not share a line
  if (scratch_bytes_ > most_scratch)
    throw UserError(
        "kernel " + kernel_.name +
        ": the tiles of this config need more than 4 GiB of scratch memory on the CPU; choose smaller sizes");
  IRBuilder::InsertPointGuard guard(b_);
  auto* scratch = llvm::cast<llvm::Instruction>(scratch_); // of the whole call, or of the current program
  b_.SetInsertPoint(scratch->getParent(), std::next(scratch->getIterator()));
  buffer.pointer =
      b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), scratch_, static_cast<std::uint64_t>(at), "buffer");
  return buffer;
}

Buffer& KernelEmitter::own_buffer(const ir::Value* v) {
  auto [at, made] = buffers_.try_emplace(v);
  if (made) at->second = make_buffer(v->type);
  return at->second;
}

Buffer KernelEmitter::materialize(const ir::Value* v) {
  if (plan_.has_buffer(v)) return own_buffer(v);
  Buffer temporary = make_buffer(v->type);
  Root root{Root::Kind::Fill, v};
  root.buffer = temporary;
  emit_nest({root}, temporary.extents);
  return temporary;
}

Value* KernelEmitter::stride_of(const Buffer& buffer, std::size_t axis) {
  if (axis == 0 && buffer.row_stride) return buffer.row_stride;
  return b_.getInt64(static_cast<std::uint64_t>(buffer.strides[axis]));
}

Values KernelEmitter::strides_of(const Buffer& buffer) {
  Values strides;
  for (std::size_t axis = 0; axis < buffer.strides.size(); ++axis)
    strides.push_back(stride_of(buffer, axis));
  return strides;
}

Value* KernelEmitter::buffer_address(const Buffer& buffer, const Indices& at) {
  llvm::Type* type = buffer.is_pointer ? b_.getPtrTy() : memory_type(context_, buffer.dtype);
  Value* offset = b_.getInt64(0);
  Value* lane_offset = nullptr;
  for (std::size_t a = 0; a < at.size(); ++a) {
    Value* stride = stride_of(buffer, a);
    offset = b_.CreateAdd(offset, b_.CreateMul(at[a].base, stride));
    if (!at[a].lanes) continue;
    Value* part = b_.CreateMul(at[a].lanes, widen(b_, stride, lanes_of(at[a].lanes)));
    lane_offset = lane_offset ? b_.CreateAdd(lane_offset, part) : part;
  }
  if (lane_offset)
    return b_.CreateGEP(type, buffer.pointer,
                        b_.CreateAdd(lane_offset, widen(b_, offset, lanes_of(lane_offset))));
  return b_.CreateGEP(type, buffer.pointer, offset);
}

namespace {

// Whether the lanes of `at` are contiguous in the buffer. If they are not, linear indices become one number
// per lane.
bool neighbours(IRBuilder& b, const Buffer& buffer, Indices& at, int lanes) {
  int varying = 0;
  bool unit = true;
  for (std::size_t a = 0; a < at.size(); ++a) {
    if (at[a].uniform()) continue;
    ++varying;
    unit &= at[a].linear && buffer.strides[a] == 1;
  }
  if (varying <= 1 && unit) return true;
  for (Index& index : at) {
    if (!index.linear) continue;
    index.lanes = lane_numbers(b, lanes);
    index.linear = false;
  }
  return false;
}

} // namespace

// Lanes that are a few elements apart are picked from a vector that is longer by that factor. Lanes with
// other constant indices along the axes in between are picked from the same vector.
Value* KernelEmitter::load_and_pick(Nest& nest, const Buffer& buffer, const Indices& at) {
  std::size_t axis = at.size();
  for (std::size_t a = 0; a < at.size(); ++a) {
    if (at[a].uniform()) continue;
    if (!at[a].linear || axis != at.size()) return nullptr;
    axis = a;
  }
  if (axis == at.size() || nest.tail || buffer.is_pointer || (axis == 0 && buffer.row_stride)) return nullptr;
  const std::int64_t apart = buffer.strides[axis];
  if (apart < 2 || apart > tuning::max_reshape_parts) return nullptr;
  std::int64_t first = 0;
  Indices together = at;
  for (std::size_t a = axis + 1; a < at.size(); ++a) {
    auto* n = llvm::dyn_cast<llvm::ConstantInt>(at[a].base);
    if (!n) return nullptr;
    first += n->getSExtValue() * buffer.strides[a];
    together[a].base = b_.getInt64(0);
  }
  llvm::Type* type = lanes_type(memory_type(context_, buffer.dtype), static_cast<int>(apart) * nest.lanes);
  Value* all = b_.CreateAlignedLoad(type, buffer_address(buffer, together),
                                    llvm::Align(static_cast<unsigned>(size_of(buffer.dtype))));
  std::vector<int> order;
  for (int l = 0; l < nest.lanes; ++l)
    order.push_back(static_cast<int>(first + l * apart));
  return b_.CreateShuffleVector(all, order);
}

Value* KernelEmitter::load_buffer(Nest& nest, const Buffer& buffer, const Indices& indices) {
  if (Value* bits = load_and_pick(nest, buffer, indices))
    return from_memory(b_, numbers_, bits, buffer.dtype);
  Indices at = indices;
  bool together = neighbours(b_, buffer, at, nest.lanes);
  bool varies = false;
  for (const Index& index : at)
    varies |= !index.uniform();
  llvm::Type* element = buffer.is_pointer ? b_.getPtrTy() : memory_type(context_, buffer.dtype);
  llvm::Type* type = lanes_type(element, varies ? nest.lanes : 1);
  llvm::Align align(buffer.is_pointer ? 8 : static_cast<unsigned>(size_of(buffer.dtype)));
  Value* address = buffer_address(buffer, at);
  Value* bits;
  if (together || !varies) {
    bits = b_.CreateAlignedLoad(type, address, align);
  } else {
    Value* mask =
        nest.tail ? nest.tail : llvm::Constant::getAllOnesValue(lanes_type(b_.getInt1Ty(), nest.lanes));
    bits = b_.CreateMaskedGather(type, address, align, mask, llvm::Constant::getNullValue(type));
  }
  return buffer.is_pointer ? bits : from_memory(b_, numbers_, bits, buffer.dtype);
}

void KernelEmitter::store_buffer(Nest& nest, const Buffer& buffer, const Indices& indices, Value* v) {
  Indices at = indices;
  bool together = neighbours(b_, buffer, at, nest.lanes);
  bool varies = false;
  for (const Index& index : at)
    varies |= !index.uniform();
  if (varies) v = widen(b_, v, nest.lanes);
  Value* bits = buffer.is_pointer ? v : to_memory(b_, numbers_, v, buffer.dtype);
  llvm::Align align(buffer.is_pointer ? 8 : static_cast<unsigned>(size_of(buffer.dtype)));
  Value* address = buffer_address(buffer, at);
  if (together || !varies) {
    b_.CreateAlignedStore(bits, address, align);
  } else {
    Value* mask =
        nest.tail ? nest.tail : llvm::Constant::getAllOnesValue(lanes_type(b_.getInt1Ty(), nest.lanes));
    b_.CreateMaskedScatter(bits, address, align, mask);
  }
}

} // namespace kiln::cpu
