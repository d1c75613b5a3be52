// Emits loads and stores of tiles through views: addresses, predicates, and the width of vectors.
#include <kiln/jit/gpu/emit/kernel_emitter.h>
#include <kiln/jit/gpu/emit/vectors.h>

#include <algorithm>

namespace kiln::gpu {

using ir::Opcode;
using llvm::Value;

// The addresses and predicates of a tile of a view. `axes[t]` is the view axis of tile axis t.
KernelEmitter::Access KernelEmitter::view_access(const ir::Op& op, const LinearLayout& layout,
                                                 const std::vector<std::int64_t>& axes) {
  return view_access(op, layout, axes, {0, 1 << layout.in_bits(in_register)});
}

KernelEmitter::Access KernelEmitter::view_access(const ir::Op& op, const LinearLayout& layout,
                                                 const std::vector<std::int64_t>& axes, Registers of) {
  const ir::Value* view = op.operand(0);
  const ir::Type& view_type = view->type;
  const ir::Type& tile = op.is(Opcode::ViewStore) ? op.stored_value()->type : op.result()->type;
  ViewFacts& v = facts(view);
  const auto offsets = op.view_offsets();

  Access result;
  Value* uniform = nullptr; // the condition of the view axes that have no tile axis
  std::vector<int> view_axis(axes.size());
  for (int d = 0; d < view_type.view_rank; ++d) {
    auto at = std::find(axes.begin(), axes.end(), d);
    Value *offset = scalar(offsets[static_cast<std::size_t>(d)]),
          *extent = v.extents[static_cast<std::size_t>(d)];
    if (at == axes.end()) {
      uniform = both(uniform, b_.CreateICmpULT(offset, extent)); // unsigned, so also not below 0
      continue;
    }
    const auto t = static_cast<std::size_t>(at - axes.begin());
    view_axis[t] = d;
    // Unsigned, so that no offset of 0 or more overflows. All views of one shape share the sum.
    Value* end = b_.CreateAdd(offset, b_.getInt64(static_cast<std::uint64_t>(tile.shape[t].value())));
    result.inside = both(result.inside, b_.CreateICmpUGE(extent, end));
    if (!is_non_negative(offsets[static_cast<std::size_t>(d)]))
      result.inside = both(result.inside, b_.CreateICmpSGE(offset, b_.getInt64(0)));
  }
  result.inside = both(result.inside, uniform);

  result.pointers = view_pointers(op, layout, axes, of);

  // Only tiles at an edge need these, so they are computed where they are used.
  auto bounds = std::make_shared<std::vector<std::pair<Value*, Value*>>>();
  result.wanted = [this, &layout, &v, offsets, tile, view_axis, uniform, bounds, of](int own) {
    const int r = of.first + own;
    if (bounds->empty())
      for (std::size_t t = 0; t < view_axis.size(); ++t) {
        // Elements [low, high) of the tile along this axis are in the view; no low means 0.
        Value* all = b_.getInt64(static_cast<std::uint64_t>(tile.shape[t].value()));
        auto clamp = [&](Value* x) {
          x = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, all);
          return b_.CreateTrunc(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, b_.getInt64(0)),
                                b_.getInt32Ty());
        };
        const auto d = static_cast<std::size_t>(view_axis[t]);
        Value* offset = scalar(offsets[d]);
        bounds->emplace_back(is_non_negative(offsets[d]) ? nullptr : clamp(b_.CreateNeg(offset)),
                             clamp(b_.CreateSub(v.extents[d], offset)));
      }
    Value* wanted = uniform;
    for (std::size_t t = 0; t < bounds->size(); ++t) {
      wanted = both(wanted, is_below(layout, r, static_cast<int>(t), (*bounds)[t].second));
      if (Value* low = (*bounds)[t].first)
        wanted = both(wanted, b_.CreateNot(is_below(layout, r, static_cast<int>(t), low)));
    }
    return wanted;
  };
  result.in_tile = [this, &layout, tile, of](int r) { return inside_tile(layout, of.first + r, tile); };

  // A single element needs its predicate only: there is no path for whole tiles.
  if (axes.empty()) result.inside = nullptr;

  result.vector = view_vector(op, tile, layout, axes);
  return result;
}

// An address is the sum of a part that offsets and thread decide and a part that the register decides.
Values KernelEmitter::view_pointers(const ir::Op& op, const LinearLayout& layout,
                                    const std::vector<std::int64_t>& axes, Registers of) {
  const ir::Type& view_type = op.operand(0)->type;
  const ViewFacts& v = facts(op.operand(0));
  const auto offsets = op.view_offsets();
  const int size = memory_bytes(view_type.dtype);
  Values pointers;
  auto* bytes = b_.getInt8Ty();
  Value* base = b_.getInt64(0);
  std::vector<Value*> strides(axes.size());
  for (int d = 0; d < view_type.view_rank; ++d) {
    auto at = std::find(axes.begin(), axes.end(), d);
    Value* place = scalar(offsets[static_cast<std::size_t>(d)]);
    Value* stride = v.strides[static_cast<std::size_t>(d)];
    if (at != axes.end()) {
      const int t = static_cast<int>(at - axes.begin());
      place = b_.CreateAdd(place, b_.CreateZExt(thread_part(layout, t), b_.getInt64Ty()));
      strides[static_cast<std::size_t>(t)] = stride;
    }
    base = b_.CreateAdd(base, b_.CreateMul(place, stride));
  }
  Value* thread_pointer =
      b_.CreateGEP(bytes, v.data, b_.CreateMul(base, b_.getInt64(static_cast<std::uint64_t>(size))));
  for (int r = of.first; r < of.first + of.count; ++r) {
    Value* offset = b_.getInt64(0);
    for (std::size_t t = 0; t < axes.size(); ++t) {
      // The difference to the thread's part, which is constant unless thread and register share a bit.
      Value* rest = b_.CreateSExt(
          b_.CreateSub(coordinate(layout, r, static_cast<int>(t)), thread_part(layout, static_cast<int>(t))),
          b_.getInt64Ty());
      offset = b_.CreateAdd(offset, b_.CreateMul(rest, strides[t]));
    }
    pointers.push_back(b_.CreateGEP(bytes, thread_pointer,
                                    b_.CreateMul(offset, b_.getInt64(static_cast<std::uint64_t>(size)))));
  }
  return pointers;
}

// How many elements that are neighbours in memory, up to 16 bytes of them, the tile has in consecutive
// registers. It is 1 if the rows of the view are not contiguous.
int KernelEmitter::view_neighbours(const ir::Op& op, const ir::Type& tile, const LinearLayout& layout,
                                   const std::vector<std::int64_t>& axes) {
  const ir::Type& view_type = op.operand(0)->type;
  const auto last = std::find(axes.begin(), axes.end(), view_type.view_rank - 1);
  if (view_type.layout == LayoutClass::Any || last == axes.end()) return 1;
  const auto t = static_cast<int>(last - axes.begin());
  int vector = std::min(widest_access / memory_bytes(view_type.dtype), run_along(layout, t));
  while (vector > 1 && (tile.shape[static_cast<std::size_t>(t)].value() % vector != 0 ||
                        !starts_aligned(layout, t, vector)))
    vector /= 2;
  return std::max(1, vector);
}

// How many of these neighbours are known to be aligned, so that one access may take them: this depends on the
// rows of the view and on the offset of the tile in them.
int KernelEmitter::view_vector(const ir::Op& op, const ir::Type& tile, const LinearLayout& layout,
                               const std::vector<std::int64_t>& axes) const {
  if (op.operand(0)->type.layout != LayoutClass::Aligned) return 1;
  int vector = view_neighbours(op, tile, layout, axes);
  auto known = facts_.find(op.view_offsets().back());
  const std::int64_t divisible =
      known == facts_.end() || known->second.axes.empty() ? 1 : known->second.axes[0].divisibility;
  while (vector > 1 && divisible % vector != 0)
    vector /= 2;
  return vector;
}

// If neighbours are not known to be aligned, each thread tests its own, as for pointers.
void KernelEmitter::look_for_vectors(Access& access, const ir::Op& op, const ir::Type& tile,
                                     const LinearLayout& layout) {
  if (access.vector > 1 || !room_for_addresses(access.pointers.size())) return;
  access.vector = view_neighbours(op, tile, layout, op.integers("axes"));
  if (access.vector > 1)
    access.inside = both(
        access.inside, are_aligned(access.pointers, access.vector, access.vector * memory_bytes(tile.dtype)));
}

void KernelEmitter::emit_view_load(const ir::Op& op) {
  if (streams_.contains(&op)) return;
  touch(*memory_touch(op));
  const LinearLayout layout = layout_of(op.result());
  Access access = view_access(op, layout, op.integers("axes"));
  look_for_vectors(access, op, op.result()->type, layout);
  access.cache = op.text("cache");
  Values otherwise;
  DType t = op.result()->type.dtype;
  if (op.other())
    otherwise = registers(op.other(), layout);
  else
    otherwise.assign(access.pointers.size(), llvm::Constant::getNullValue(emit::compute_type(context_, t)));
  if (op.mask()) apply_mask(access, registers(op.mask(), layout));
  define_loaded(op.result(), layout, load(access, t, otherwise));
}

// For a load without a mask and without a value for elements outside of the view.
Values KernelEmitter::load_part(const ir::Op& op, const LinearLayout& layout, Registers part) {
  Access access = view_access(op, layout, op.integers("axes"), part);
  access.cache = op.text("cache");
  const DType t = op.result()->type.dtype;
  return load(
      access, t,
      Values(access.pointers.size(), llvm::Constant::getNullValue(emit::compute_type(context_, t))))();
}

void KernelEmitter::emit_view_places(const ir::Op& op) {
  const bool is_tile = op.result()->type.is_tile();
  const LinearLayout layout = layout_of(op.result());
  Values places;
  const Access access = view_access(op, layout, op.integers("axes"));
  for (std::size_t r = 0; r < access.pointers.size(); ++r) {
    Value* place = op.is(Opcode::ViewPtrs) ? access.pointers[r] : access.wanted(static_cast<int>(r));
    places.push_back(place ? place : b_.getTrue());
  }
  if (is_tile)
    define(op.result(), layout, places);
  else
    scalars_[op.result()] = places[0];
}

void KernelEmitter::emit_view_store(const ir::Op& op) {
  const ir::Value* value = op.stored_value();
  const LinearLayout layout = value->type.is_tile() ? store_layout(op, layout_of(value), plan_.warps)
                                                    : default_layout(value->type, plan_.warps);
  Values values = registers(value, layout);
  touch(*memory_touch(op));
  Access access = view_access(op, layout, op.integers("axes"));
  look_for_vectors(access, op, value->type, layout);
  if (op.mask()) apply_mask(access, registers(op.mask(), layout));
  store(access, op.operand(0)->type.dtype, values, layout);
}

} // namespace kiln::gpu
