// Loads and stores through views and pointers.
//
// A run of registers that walk along contiguous memory is one access of up to 16 bytes. Whether all of a tile
// lies inside its view is one uniform condition, so there are two versions of such a tile's accesses: whole
// vectors without any test, and elements under a predicate.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <algorithm>
#include <bit>

namespace kiln::gpu {

using ir::Opcode;
using llvm::Value;

namespace {

constexpr int widest_access = 16; // bytes

int memory_bytes(DType t) { return t == DType::Bool ? 1 : size_of(t); }

// How many registers, from the first, are neighbours along `axis`.
int run_along(const LinearLayout& layout, int axis) {
  int bits = 0;
  while (bits < layout.in_bits(in_register)) {
    std::int64_t image = layout.basis(in_register, bits, axis_name(axis));
    if (image != std::int64_t{1} << bits || std::popcount(layout.column(in_register, bits)) != 1) break;
    ++bits;
  }
  return 1 << bits;
}

// The bits of a place that are zero below bit `bits` of an axis for all but the first registers.
bool starts_aligned(const LinearLayout& layout, int axis, int vector) {
  const int bits = std::countr_zero(static_cast<unsigned>(vector));
  for (const char* side : {in_register, in_lane, in_warp})
    for (int i = side == in_register ? bits : 0; i < layout.in_bits(side); ++i)
      if (layout.basis(side, i, axis_name(axis)) & (vector - 1)) return false;
  return true;
}

} // namespace

// Addresses and predicates of a view's tile. `axes[t]` is the view axis of tile axis t.
KernelEmitter::ViewTile KernelEmitter::view_tile(const ir::Op& op, const LinearLayout& layout,
                                                 const std::vector<std::int64_t>& axes) {
  const ir::Value* view = op.operand(0);
  const ir::Type& view_type = view->type;
  const ir::Type& tile = op.is(Opcode::ViewStore) ? op.stored_value()->type : op.result()->type;
  ViewFacts& v = facts(view);
  auto offsets = op.view_offsets();
  const int registers = 1 << layout.in_bits(in_register);
  auto* i32 = b_.getInt32Ty();
  auto* bytes = b_.getInt8Ty();
  const int size = memory_bytes(view_type.dtype);

  // Along each tile axis: the tile's elements [low, high) lie inside the view.
  ViewTile result;
  Value* uniform = nullptr; // of the axes that have no tile axis
  std::vector<Value*> low(axes.size(), nullptr), high(axes.size(), nullptr);
  Value* inside = nullptr;
  bool padded = false;
  for (int d = 0; d < view_type.view_rank; ++d) {
    auto at = std::find(axes.begin(), axes.end(), d);
    Value *offset = scalar(offsets[static_cast<std::size_t>(d)]),
          *extent = v.extents[static_cast<std::size_t>(d)];
    if (at == axes.end()) {
      uniform = both(uniform, b_.CreateICmpULT(offset, extent)); // unsigned: also not below 0
      continue;
    }
    const auto t = static_cast<std::size_t>(at - axes.begin());
    const std::int64_t size_here = tile.shape[t].value();
    padded |= !std::has_single_bit(static_cast<std::uint64_t>(size_here));
    Value* all = b_.getInt64(static_cast<std::uint64_t>(size_here));
    auto clamp = [&](Value* x) {
      x = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, all);
      return b_.CreateTrunc(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, b_.getInt64(0)), i32);
    };
    high[t] = clamp(b_.CreateSub(extent, offset));
    low[t] = clamp(b_.CreateNeg(offset));
    inside = both(inside, b_.CreateAnd(b_.CreateICmpSGE(b_.CreateSub(extent, offset), all),
                                       b_.CreateICmpSGE(offset, b_.getInt64(0))));
  }
  result.inside = padded ? nullptr : both(inside, uniform);

  // The address is what the offsets and the thread decide, plus what the register does.
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
  for (int r = 0; r < registers; ++r) {
    Access access;
    access.wanted = uniform;
    Value* offset = b_.getInt64(0);
    for (std::size_t t = 0; t < axes.size(); ++t) {
      Value* place = coordinate(layout, r, static_cast<int>(t));
      access.wanted = both(access.wanted, b_.CreateICmpULT(place, high[t]));
      access.wanted = both(access.wanted, b_.CreateICmpUGE(place, low[t]));
      // Relative to the thread's part: an addition, or a difference where a bit is in both.
      Value* rest =
          b_.CreateSExt(b_.CreateSub(place, thread_part(layout, static_cast<int>(t))), b_.getInt64Ty());
      offset = b_.CreateAdd(offset, b_.CreateMul(rest, strides[t]));
    }
    access.pointer = b_.CreateGEP(bytes, thread_pointer,
                                  b_.CreateMul(offset, b_.getInt64(static_cast<std::uint64_t>(size))));
    result.elements.push_back(access);
  }

  // Vectors, where the view's rows and the tile's place in them are aligned.
  if (view_type.layout == LayoutClass::Aligned && !axes.empty()) {
    for (std::size_t t = 0; t < axes.size(); ++t) {
      if (axes[t] != view_type.view_rank - 1) continue;
      int vector = std::min(widest_access / size, run_along(layout, static_cast<int>(t)));
      auto known = facts_.find(offsets[static_cast<std::size_t>(axes[t])]);
      std::int64_t divisible =
          known == facts_.end() || known->second.axes.empty() ? 1 : known->second.axes[0].divisibility;
      while (vector > 1 && (divisible % vector != 0 || !starts_aligned(layout, static_cast<int>(t), vector)))
        vector /= 2;
      result.vector = std::max(1, vector);
    }
  }
  return result;
}

// Elements in registers, as the dtype is held there; `otherwise` where nothing is wanted.
Values KernelEmitter::load(const ViewTile& tile, DType t, const Values& otherwise) {
  llvm::Type* memory = cpu::memory_type(context_, t);
  llvm::Type* bits = b_.getIntNTy(static_cast<unsigned>(memory_bytes(t)) * 8);
  const std::size_t count = tile.elements.size();
  auto value_of = [&](Value* raw) {
    return cpu::from_memory(b_, numbers_, b_.CreateBitCast(raw, memory), t);
  };
  auto by_element = [&] {
    Values result;
    for (std::size_t r = 0; r < count; ++r) {
      const Access& access = tile.elements[r];
      Value* wanted = access.wanted ? access.wanted : b_.getTrue();
      Value* raw = machine_.load_if(b_, bits, access.pointer, wanted, llvm::Constant::getNullValue(bits));
      result.push_back(b_.CreateSelect(wanted, value_of(raw), otherwise[r]));
    }
    return result;
  };
  if (!tile.inside) return by_element();
  auto* whole = llvm::BasicBlock::Create(context_, "whole", function_);
  auto* edge = llvm::BasicBlock::Create(context_, "edge", function_);
  auto* join = llvm::BasicBlock::Create(context_, "loaded", function_);
  b_.CreateCondBr(tile.inside, whole, edge);
  b_.SetInsertPoint(whole);
  Values fast;
  const auto v = static_cast<std::size_t>(tile.vector);
  for (std::size_t r = 0; r < count; r += v) {
    llvm::Type* type = cpu::lanes_type(bits, tile.vector);
    Value* loaded =
        b_.CreateAlignedLoad(type, tile.elements[r].pointer,
                             llvm::Align(static_cast<std::uint64_t>(tile.vector * memory_bytes(t))));
    for (std::size_t i = 0; i < v; ++i)
      fast.push_back(value_of(v == 1 ? loaded : b_.CreateExtractElement(loaded, i)));
  }
  llvm::BasicBlock* whole_end = b_.GetInsertBlock();
  b_.CreateBr(join);
  b_.SetInsertPoint(edge);
  Values slow = by_element();
  llvm::BasicBlock* edge_end = b_.GetInsertBlock();
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
  Values result;
  for (std::size_t r = 0; r < count; ++r) {
    llvm::PHINode* phi = b_.CreatePHI(fast[r]->getType(), 2);
    phi->addIncoming(fast[r], whole_end);
    phi->addIncoming(slow[r], edge_end);
    result.push_back(phi);
  }
  return result;
}

void KernelEmitter::store(const ViewTile& tile, DType t, const Values& values, const LinearLayout& layout) {
  llvm::Type* bits = b_.getIntNTy(static_cast<unsigned>(memory_bytes(t)) * 8);
  const std::uint64_t repeats = layout.redundant(in_register);
  Value* first = owner(layout);
  Values raw;
  for (Value* v : values)
    raw.push_back(b_.CreateBitCast(cpu::to_memory(b_, numbers_, v, t), bits));
  auto by_element = [&] {
    for (std::size_t r = 0; r < raw.size(); ++r) {
      if (r & repeats) continue;
      Value* wanted = both(tile.elements[r].wanted, first);
      machine_.store_if(b_, raw[r], tile.elements[r].pointer, wanted ? wanted : b_.getTrue());
    }
  };
  Value* inside = tile.inside ? both(tile.inside, first) : nullptr;
  if (!inside) return by_element();
  auto* whole = llvm::BasicBlock::Create(context_, "whole", function_);
  auto* edge = llvm::BasicBlock::Create(context_, "edge", function_);
  auto* join = llvm::BasicBlock::Create(context_, "stored", function_);
  b_.CreateCondBr(inside, whole, edge);
  b_.SetInsertPoint(whole);
  const auto v = static_cast<std::size_t>(tile.vector);
  for (std::size_t r = 0; r < raw.size(); r += v) {
    if (r & repeats) continue;
    Value* data = raw[r];
    if (v > 1) {
      data = llvm::PoisonValue::get(cpu::lanes_type(bits, tile.vector));
      for (std::size_t i = 0; i < v; ++i)
        data = b_.CreateInsertElement(data, raw[r + i], i);
    }
    b_.CreateAlignedStore(data, tile.elements[r].pointer,
                          llvm::Align(static_cast<std::uint64_t>(tile.vector * memory_bytes(t))));
  }
  b_.CreateBr(join);
  b_.SetInsertPoint(edge);
  by_element();
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
}

namespace {

std::vector<std::int64_t> axes_of(const ir::Op& op) { return op.integers("axes"); }

} // namespace

void KernelEmitter::emit_view_load(const ir::Op& op) {
  touch({.kind = Touch::Kind::View, .op = &op, .view = op.operand(0)});
  const bool is_tile = op.result()->type.is_tile();
  const LinearLayout layout = layout_of(op.result());
  ViewTile tile = view_tile(op, layout, axes_of(op));
  Values otherwise;
  DType t = op.result()->type.dtype;
  if (op.other())
    otherwise = registers(op.other(), layout);
  else
    otherwise.assign(tile.elements.size(), llvm::Constant::getNullValue(cpu::compute_type(context_, t)));
  if (op.mask()) {
    Values mask = registers(op.mask(), layout);
    for (std::size_t r = 0; r < mask.size(); ++r)
      tile.elements[r].wanted = both(tile.elements[r].wanted, mask[r]);
    tile.inside = nullptr;
  }
  Values loaded = load(tile, t, otherwise);
  if (is_tile)
    define(op.result(), layout, loaded);
  else
    scalars_[op.result()] = loaded[0];
}

void KernelEmitter::emit_view_places(const ir::Op& op) {
  const bool is_tile = op.result()->type.is_tile();
  const LinearLayout layout = layout_of(op.result());
  Values places;
  for (const Access& access : view_tile(op, layout, axes_of(op)).elements)
    places.push_back(op.is(Opcode::ViewPtrs) ? access.pointer : access.wanted ? access.wanted : b_.getTrue());
  if (is_tile)
    define(op.result(), layout, places);
  else
    scalars_[op.result()] = places[0];
}

void KernelEmitter::emit_view_store(const ir::Op& op) {
  const ir::Value* value = op.stored_value();
  const LinearLayout layout =
      value->type.is_tile() ? layout_of(value) : default_layout(value->type, plan_.warps);
  Values values = registers(value, layout);
  touch({.kind = Touch::Kind::View, .write = true, .op = &op, .view = op.operand(0)});
  ViewTile tile = view_tile(op, layout, axes_of(op));
  if (op.mask()) {
    Values mask = registers(op.mask(), layout);
    for (std::size_t r = 0; r < mask.size(); ++r)
      tile.elements[r].wanted = both(tile.elements[r].wanted, mask[r]);
    tile.inside = nullptr;
  }
  store(tile, op.operand(0)->type.dtype, values, layout);
}

// --- Pointers and gathered elements: an access each

std::vector<KernelEmitter::Access> KernelEmitter::pointer_accesses(const ir::Op& op,
                                                                   const LinearLayout& layout) {
  std::vector<Access> result;
  const ir::Type& type = op.operand(0)->type;
  Values pointers = registers(op.operand(0), layout), mask;
  if (op.mask()) mask = registers(op.mask(), layout);
  for (std::size_t r = 0; r < pointers.size(); ++r) {
    Value* wanted = inside_tile(layout, static_cast<int>(r), type);
    result.push_back({pointers[r], both(wanted, mask.empty() ? nullptr : mask[r])});
  }
  return result;
}

std::vector<KernelEmitter::Access> KernelEmitter::gather_accesses(const ir::Op& op,
                                                                  const LinearLayout& layout) {
  ViewFacts& v = facts(op.operand(0));
  auto indices = op.view_offsets();
  const DType t = op.operand(0)->type.dtype;
  std::vector<Values> places;
  for (const ir::Value* index : indices)
    places.push_back(registers(index, layout));
  Values mask;
  if (op.mask()) mask = registers(op.mask(), layout);
  const ir::Type& shape = indices.empty() ? op.operand(0)->type : indices[0]->type;
  std::vector<Access> result;
  for (int r = 0; r < 1 << layout.in_bits(in_register); ++r) {
    const auto at = static_cast<std::size_t>(r);
    Access access;
    access.wanted = both(inside_tile(layout, r, shape), mask.empty() ? nullptr : mask[at]);
    Value* offset = b_.getInt64(0);
    for (std::size_t d = 0; d < places.size(); ++d) {
      access.wanted = both(access.wanted, b_.CreateICmpULT(places[d][at], v.extents[d]));
      offset = b_.CreateAdd(offset, b_.CreateMul(places[d][at], v.strides[d]));
    }
    access.pointer =
        b_.CreateGEP(b_.getInt8Ty(), v.data,
                     b_.CreateMul(offset, b_.getInt64(static_cast<std::uint64_t>(memory_bytes(t)))));
    result.push_back(access);
  }
  return result;
}

// Loads and stores of single elements: through pointers, or gathered from a view by index.
void KernelEmitter::emit_element_load(const ir::Op& op) {
  touch(element_touch(op));
  const LinearLayout layout = layout_of(op.result());
  const DType t = op.result()->type.dtype;
  const ViewTile tile{element_accesses(op, layout), nullptr, 1};
  Values otherwise =
      op.other() ? registers(op.other(), layout)
                 : Values(tile.elements.size(), llvm::Constant::getNullValue(cpu::compute_type(context_, t)));
  Values loaded = load(tile, t, otherwise);
  if (op.result()->type.is_tile())
    define(op.result(), layout, loaded);
  else
    scalars_[op.result()] = loaded[0];
}

void KernelEmitter::emit_element_store(const ir::Op& op) {
  const ir::Value* value = op.stored_value();
  const LinearLayout layout = layout_of(value);
  Values values = registers(value, layout);
  const ViewTile tile{element_accesses(op, layout), nullptr, 1};
  touch(element_touch(op));
  store(tile, value->type.dtype, values, layout);
}

KernelEmitter::Touch KernelEmitter::element_touch(const ir::Op& op) {
  const bool write = op.info().effect == ir::Effect::Write;
  if (op.operand(0)->type.is_view())
    return {.kind = Touch::Kind::View, .write = write, .op = &op, .view = op.operand(0)};
  return {.kind = Touch::Kind::Pointer, .write = write, .op = &op};
}

std::vector<KernelEmitter::Access> KernelEmitter::element_accesses(const ir::Op& op,
                                                                   const LinearLayout& layout) {
  return op.operand(0)->type.is_view() ? gather_accesses(op, layout) : pointer_accesses(op, layout);
}

} // namespace kiln::gpu
