// Emits loads and stores through pointers, and gathers and scatters.
//
// Each element is an access, or several are one where the axis analysis proves that they are neighbours.
#include <kiln/jit/gpu/emit/kernel_emitter.h>
#include <kiln/jit/gpu/emit/vectors.h>

#include <algorithm>

namespace kiln::gpu {

using llvm::Value;

// How many neighbouring registers, of up to 16 bytes together, hold `places` (pointers or indices) that go up
// by one, while `others` are constant.
int KernelEmitter::neighbours(const ir::Value* places, const std::vector<const ir::Value*>& others,
                              const LinearLayout& layout, int size) {
  auto known = facts_.find(places);
  if (known == facts_.end() || !places->type.is_tile()) return 1;
  for (std::size_t axis = 0; axis < known->second.axes.size(); ++axis) {
    int vector = std::min(widest_access / size, run_along(layout, static_cast<int>(axis)));
    auto holds = [&] {
      if (known->second.axes[axis].contiguity % vector != 0 || places->type.shape[axis].value() % vector != 0)
        return false;
      for (const ir::Value* other : others)
        if (auto fact = facts_.find(other); fact == facts_.end() || axis >= fact->second.axes.size() ||
                                            fact->second.axes[axis].constancy % vector != 0)
          return false;
      return starts_aligned(layout, static_cast<int>(axis), vector);
    };
    while (vector > 1 && !holds())
      vector /= 2;
    if (vector > 1) return vector;
  }
  return 1;
}

// Whether the address of each vector is a multiple of its size in bytes. The alignment of pointers is not
// known, so each thread tests its own.
Value* KernelEmitter::are_aligned(const Values& pointers, int vector, int bytes) {
  Value* low_bits = b_.getInt64(0);
  for (std::size_t r = 0; r < pointers.size(); r += static_cast<std::size_t>(vector))
    low_bits = b_.CreateOr(low_bits, b_.CreatePtrToInt(pointers[r], b_.getInt64Ty()));
  return b_.CreateICmpEQ(b_.CreateAnd(low_bits, static_cast<std::uint64_t>(bytes) - 1), b_.getInt64(0));
}

// Whether a thread has registers for both paths, vectors and elements. Until it has tested that all addresses
// are aligned and wanted, it keeps them, two registers each, in addition to the values. If a thread may have
// 255 registers, this was never too much.
bool KernelEmitter::room_for_addresses(std::size_t elements) const {
  constexpr int all_registers = 65536, most = 255;
  const int registers = all_registers / (32 * plan_.warps);
  return registers > most || 3 * elements <= static_cast<std::size_t>(registers) / 2; // a heuristic
}

KernelEmitter::Access KernelEmitter::pointer_access(const ir::Op& op, const LinearLayout& layout) {
  Access result;
  result.pointers = registers(op.operand(0), layout);
  result.cache = op.text("cache");
  result.wanted = [this, &layout, type = op.operand(0)->type](int r) { return inside_tile(layout, r, type); };
  result.in_tile = result.wanted;
  const int size = memory_bytes(op.operand(0)->type.dtype);
  result.align = static_cast<int>(op.integer("align"));
  const bool aligned = result.align == 0 || result.align >= size;
  if (aligned && room_for_addresses(result.pointers.size()))
    result.vector = neighbours(op.operand(0), {}, layout, size);
  if (result.vector > 1) result.inside = are_aligned(result.pointers, result.vector, result.vector * size);
  if (op.mask()) apply_mask(result, registers(op.mask(), layout));
  return result;
}

KernelEmitter::Access KernelEmitter::gather_access(const ir::Op& op, const LinearLayout& layout) {
  ViewFacts& v = facts(op.operand(0));
  auto indices = op.view_offsets();
  const DType t = op.operand(0)->type.dtype;
  std::vector<Values> places;
  for (const ir::Value* index : indices)
    places.push_back(registers(index, layout));
  const ir::Type& shape = indices.empty() ? op.operand(0)->type : indices[0]->type;
  Access result;
  Values inside; // whether each element is in the view, without regard to padding of the tile
  for (int r = 0; r < 1 << layout.in_bits(in_register); ++r) {
    const auto at = static_cast<std::size_t>(r);
    Value *offset = b_.getInt64(0), *wanted = nullptr;
    for (std::size_t d = 0; d < places.size(); ++d) {
      wanted = both(wanted, b_.CreateICmpULT(places[d][at], v.extents[d]));
      offset = b_.CreateAdd(offset, b_.CreateMul(places[d][at], v.strides[d]));
    }
    inside.push_back(wanted);
    result.pointers.push_back(
        b_.CreateGEP(b_.getInt8Ty(), v.data,
                     b_.CreateMul(offset, b_.getInt64(static_cast<std::uint64_t>(memory_bytes(t))))));
  }
  result.in_tile = [this, &layout, shape](int r) { return inside_tile(layout, r, shape); };
  result.wanted = [this, inside, in_tile = result.in_tile](int r) {
    return both(in_tile(r), inside[static_cast<std::size_t>(r)]);
  };
  if (const ir::Type& view = op.operand(0)->type;
      !indices.empty() && view.layout != LayoutClass::Any && room_for_addresses(inside.size())) {
    const std::vector<const ir::Value*> others(indices.begin(), indices.end() - 1);
    const int size = memory_bytes(t);
    result.vector = neighbours(indices.back(), others, layout, size);
    if (result.vector > 1) result.inside = are_aligned(result.pointers, result.vector, result.vector * size);
    for (std::size_t r = 0; result.inside && r < inside.size(); ++r)
      result.inside = both(result.inside, inside[r]);
  }
  if (op.mask()) apply_mask(result, registers(op.mask(), layout));
  return result;
}

void KernelEmitter::emit_element_load(const ir::Op& op) {
  touch(*memory_touch(op));
  const LinearLayout layout = layout_of(op.result());
  const DType t = op.result()->type.dtype;
  const Access access = element_access(op, layout);
  Values otherwise = op.other() ? registers(op.other(), layout)
                                : Values(access.pointers.size(),
                                         llvm::Constant::getNullValue(emit::compute_type(context_, t)));
  define_loaded(op.result(), layout, load(access, t, otherwise));
}

void KernelEmitter::emit_element_store(const ir::Op& op) {
  const ir::Value* value = op.stored_value();
  const LinearLayout layout = layout_of(value);
  Values values = registers(value, layout);
  const Access access = element_access(op, layout);
  touch(*memory_touch(op));
  store(access, value->type.dtype, values, layout);
}

KernelEmitter::Access KernelEmitter::element_access(const ir::Op& op, const LinearLayout& layout) {
  return op.operand(0)->type.is_view() ? gather_access(op, layout) : pointer_access(op, layout);
}

} // namespace kiln::gpu
