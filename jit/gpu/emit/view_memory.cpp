// Loads and stores through views: where a tile's elements lie, which are inside, and how many go together.
#include <kiln/jit/gpu/emit/kernel_emitter.h>
#include <kiln/jit/gpu/emit/vectors.h>

#include <algorithm>

namespace kiln::gpu {

using ir::Opcode;
using llvm::Value;

// Addresses and predicates of a view's tile. `axes[t]` is the view axis of tile axis t.
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
  Value* uniform = nullptr; // of the axes that have no tile axis
  std::vector<int> view_axis(axes.size());
  for (int d = 0; d < view_type.view_rank; ++d) {
    auto at = std::find(axes.begin(), axes.end(), d);
    Value *offset = scalar(offsets[static_cast<std::size_t>(d)]),
          *extent = v.extents[static_cast<std::size_t>(d)];
    if (at == axes.end()) {
      uniform = both(uniform, b_.CreateICmpULT(offset, extent)); // unsigned: also not below 0
      continue;
    }
    const auto t = static_cast<std::size_t>(at - axes.begin());
    view_axis[t] = d;
    // Unsigned, so that no offset of 0 or more overflows; the sum is the same for all views of a shape.
    Value* end = b_.CreateAdd(offset, b_.getInt64(static_cast<std::uint64_t>(tile.shape[t].value())));
    result.inside = both(result.inside, b_.CreateICmpUGE(extent, end));
    if (!is_non_negative(offsets[static_cast<std::size_t>(d)]))
      result.inside = both(result.inside, b_.CreateICmpSGE(offset, b_.getInt64(0)));
  }
  result.inside = both(result.inside, uniform);

  result.pointers = view_pointers(op, layout, axes, of);

  // Only a tile at an edge asks for these, so they are computed where they are used.
  auto bounds = std::make_shared<std::vector<std::pair<Value*, Value*>>>();
  result.wanted = [this, &layout, &v, offsets, tile, view_axis, uniform, bounds, of](int own) {
    const int r = of.first + own;
    if (bounds->empty())
      for (std::size_t t = 0; t < view_axis.size(); ++t) {
        // Along this axis the tile's elements [low, high) lie inside the view; no low: 0.
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

  // One element is there or not: its predicate says so, and there is no edge.
  if (axes.empty()) result.inside = nullptr;

  result.vector = view_vector(op, tile, layout, axes);
  return result;
}

// The address is what the offsets and the thread decide, plus what the register does.
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
      // Relative to the thread's part: an addition, or a difference where a bit is in both.
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

// Neighbouring elements, up to 16 bytes of them, that the tile has in registers one after another; 1 where
// the view's rows are not contiguous.
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

// Neighbouring elements that one access may take: where the view's rows and the tile's place in them are
// aligned.
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

// Where nothing says that the elements are aligned, each thread looks at its own, as for pointers.
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

// Of a load without a mask and another value.
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
