// Loads and stores through views and pointers.
//
// A run of registers that walk along contiguous memory is one access of up to 16 bytes. Whether all of a tile
// lies inside its view is one uniform condition, so there are two versions of such a tile's accesses: whole
// vectors without any test, and elements under a predicate.
#include <kiln/jit/gpu/emit/kernel_emitter.h>

#include <llvm/IR/PatternMatch.h>

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
  auto* bytes = b_.getInt8Ty();
  const int size = memory_bytes(view_type.dtype);

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
    if (!is_natural(offsets[static_cast<std::size_t>(d)]))
      result.inside = both(result.inside, b_.CreateICmpSGE(offset, b_.getInt64(0)));
  }
  result.inside = both(result.inside, uniform);

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
  for (int r = of.first; r < of.first + of.count; ++r) {
    Value* offset = b_.getInt64(0);
    for (std::size_t t = 0; t < axes.size(); ++t) {
      // Relative to the thread's part: an addition, or a difference where a bit is in both.
      Value* rest = b_.CreateSExt(
          b_.CreateSub(coordinate(layout, r, static_cast<int>(t)), thread_part(layout, static_cast<int>(t))),
          b_.getInt64Ty());
      offset = b_.CreateAdd(offset, b_.CreateMul(rest, strides[t]));
    }
    result.pointers.push_back(b_.CreateGEP(
        bytes, thread_pointer, b_.CreateMul(offset, b_.getInt64(static_cast<std::uint64_t>(size)))));
  }

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
        bounds->emplace_back(is_natural(offsets[d]) ? nullptr : clamp(b_.CreateNeg(offset)),
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

  // Vectors, where the view's rows and the tile's place in them are aligned.
  if (view_type.layout == LayoutClass::Aligned)
    for (std::size_t t = 0; t < axes.size(); ++t) {
      if (axes[t] != view_type.view_rank - 1) continue;
      int vector = std::min(widest_access / size, run_along(layout, static_cast<int>(t)));
      auto known = facts_.find(offsets[static_cast<std::size_t>(axes[t])]);
      const std::int64_t divisible =
          known == facts_.end() || known->second.axes.empty() ? 1 : known->second.axes[0].divisibility;
      while (vector > 1 && (divisible % vector != 0 || tile.shape[t].value() % vector != 0 ||
                            !starts_aligned(layout, static_cast<int>(t), vector)))
        vector /= 2;
      result.vector = std::max(1, vector);
    }
  return result;
}

namespace {

// An integer of so many bytes, or a vector of those that one access takes.
llvm::Type* access_type(IRBuilder& b, int bytes, int element_bytes) {
  const int part = std::min(bytes, std::max(4, element_bytes));
  return emit::lanes_type(b.getIntNTy(static_cast<unsigned>(part) * 8), bytes / part);
}

// The words of an access.
Values words_of(IRBuilder& b, Value* access) {
  if (!emit::is_vector(access)) return {access};
  Values words;
  for (int i = 0; i < emit::lanes_of(access); ++i)
    words.push_back(b.CreateExtractElement(access, static_cast<std::uint64_t>(i)));
  return words;
}

Value* access_of(IRBuilder& b, llvm::Type* type, const Values& words) {
  if (words.size() == 1) return words[0];
  Value* access = llvm::PoisonValue::get(type);
  for (std::size_t i = 0; i < words.size(); ++i)
    access = b.CreateInsertElement(access, words[i], i);
  return access;
}

// Elements' bits, side by side in words of a type.
Values packed(IRBuilder& b, llvm::Type* word, const Values& elements) {
  const std::size_t in_word = word->getIntegerBitWidth() / elements[0]->getType()->getIntegerBitWidth();
  if (in_word == 1) return elements;
  Values words;
  for (std::size_t i = 0; i < elements.size(); i += in_word) { // LLVM knows a vector's bits as a word
    Value* lanes =
        llvm::PoisonValue::get(emit::lanes_type(elements[0]->getType(), static_cast<int>(in_word)));
    for (std::size_t j = 0; j < in_word; ++j)
      lanes = b.CreateInsertElement(lanes, elements[i + j], j);
    words.push_back(b.CreateBitCast(lanes, word));
  }
  return words;
}

// And back, as values of `t`.
Values unpacked(IRBuilder& b, const emit::NumberOptions& numbers, Value* word, DType t) {
  Values result;
  auto* bits = b.getIntNTy(static_cast<unsigned>(memory_bytes(t)) * 8);
  const unsigned in_word = word->getType()->getIntegerBitWidth() / bits->getIntegerBitWidth();
  for (unsigned j = 0; j < in_word; ++j) {
    if (t == DType::BF16 && in_word == 2) { // half of a word is an f32 where it stands
      Value* half = j == 0 ? b.CreateShl(word, 16) : b.CreateAnd(word, 0xffff0000u);
      result.push_back(b.CreateBitCast(half, b.getFloatTy()));
      continue;
    }
    Value* raw = b.CreateTrunc(b.CreateLShr(word, std::uint64_t{j} * bits->getIntegerBitWidth()), bits);
    raw = b.CreateBitCast(raw, emit::memory_type(b.getContext(), t));
    result.push_back(emit::from_memory(b, numbers, raw, t));
  }
  return result;
}

} // namespace

namespace {

// What a value that was rounded to a narrow float was rounded from: rounding it once more gives the same.
Value* before_rounding(Value* v) {
  using namespace llvm::PatternMatch;
  Value* x = nullptr;
  return match(v, m_FPExt(m_BitCast(m_BitCast(m_FPTrunc(m_Value(x)))))) ? x : v;
}

} // namespace

// What `fast` gives where `whole` holds, and `slow` elsewhere; null: never.
Values KernelEmitter::either_way(Value* whole, const std::function<Values()>& fast,
                                 const std::function<Values()>& slow) {
  if (!whole) return slow();
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(whole); known && known->isOne()) return fast();
  auto* in_whole = llvm::BasicBlock::Create(context_, "whole", function_);
  auto* in_edge = llvm::BasicBlock::Create(context_, "edge", function_);
  auto* join = llvm::BasicBlock::Create(context_, "join", function_);
  b_.CreateCondBr(whole, in_whole, in_edge);
  b_.SetInsertPoint(in_whole);
  const Values first = fast();
  llvm::BasicBlock* whole_end = b_.GetInsertBlock();
  b_.CreateBr(join);
  b_.SetInsertPoint(in_edge);
  const Values second = slow();
  llvm::BasicBlock* edge_end = b_.GetInsertBlock();
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
  Values result;
  for (std::size_t i = 0; i < first.size(); ++i) {
    llvm::PHINode* phi = b_.CreatePHI(first[i]->getType(), 2);
    phi->addIncoming(first[i], whole_end);
    phi->addIncoming(second[i], edge_end);
    result.push_back(phi);
  }
  return result;
}

// Elements as they lie in memory, to be had in registers as the dtype is held there; `otherwise` where
// nothing is wanted.
std::function<Values()> KernelEmitter::load(const Access& access, DType t, const Values& otherwise) {
  const int size = memory_bytes(t), vector = access.inside ? access.vector : 1;
  llvm::Type *bits = b_.getIntNTy(static_cast<unsigned>(size) * 8),
             *type = access_type(b_, vector * size, size);
  const auto v = static_cast<std::size_t>(vector);
  // Narrow elements wait in whole words: many of them in a register each would fill a thread's.
  constexpr std::size_t few = 8;
  std::size_t together = v;
  if (access.pointers.size() > few) together = std::max(v, static_cast<std::size_t>(std::max(1, 4 / size)));
  if (access.pointers.size() % together != 0) together = v;
  llvm::Type* word = access_type(b_, static_cast<int>(together) * size, size)->getScalarType();
  auto append = [](Values& all, const Values& more) { all.insert(all.end(), more.begin(), more.end()); };
  auto by_element = [&] {
    Values words;
    for (std::size_t r = 0; r < access.pointers.size(); r += together) {
      Values elements;
      for (std::size_t i = r; i < r + together; ++i) {
        Value* wanted = access.wanted(static_cast<int>(i));
        Value* raw = b_.CreateBitCast(emit::to_memory(b_, numbers_, otherwise[i], t), bits);
        elements.push_back(machine_.load_if(b_, bits, access.pointers[i], wanted ? wanted : b_.getTrue(), raw,
                                            access.cache));
      }
      append(words, packed(b_, word, elements));
    }
    return words;
  };
  auto whole_vectors = [&] {
    Values words;
    for (std::size_t r = 0; r < access.pointers.size(); r += together) {
      Values parts;
      for (std::size_t i = r; i < r + together; i += v) {
        Value* in_tile = access.in_tile(static_cast<int>(i));
        if (!in_tile && !access.cache.empty()) in_tile = b_.getTrue();
        append(parts,
               words_of(b_, in_tile ? machine_.load_if(b_, type, access.pointers[i], in_tile,
                                                       llvm::Constant::getNullValue(type), access.cache)
                                    : b_.CreateAlignedLoad(
                                          type, access.pointers[i],
                                          llvm::Align(static_cast<std::uint64_t>(vector * size)))));
      }
      append(words, packed(b_, word, parts));
    }
    return words;
  };
  const Values loaded = either_way(access.inside, whole_vectors, by_element);
  return [this, loaded, t] {
    Values result;
    for (Value* word : loaded)
      for (Value* element : unpacked(b_, numbers_, word, t))
        result.push_back(element);
    return result;
  };
}

void KernelEmitter::store(const Access& access, DType t, const Values& values, const LinearLayout& layout) {
  const int size = memory_bytes(t);
  llvm::Type* bits = b_.getIntNTy(static_cast<unsigned>(size) * 8);
  const std::uint64_t repeats = layout.redundant(in_register);
  // Two at a time where one instruction narrows two.
  const bool pairs = emit::narrows(numbers_.convert, t) && values.size() > 1;
  Values raw;
  for (std::size_t r = 0; r < values.size(); r += pairs ? 2 : 1) {
    if (!pairs) {
      raw.push_back(b_.CreateBitCast(emit::to_memory(b_, numbers_, values[r], t), bits));
      continue;
    }
    Value* two = llvm::PoisonValue::get(emit::lanes_type(b_.getFloatTy(), 2));
    for (std::uint64_t i = 0; i < 2; ++i)
      two = b_.CreateInsertElement(two, before_rounding(values[r + i]), i);
    two = emit::to_memory(b_, numbers_, two, t);
    for (std::uint64_t i = 0; i < 2; ++i)
      raw.push_back(b_.CreateExtractElement(two, i));
  }
  auto by_element = [&] {
    for (std::size_t r = 0; r < values.size(); ++r) {
      if (r & repeats) continue;
      Value* wanted = access.wanted(static_cast<int>(r));
      machine_.store_if(b_, raw[r], access.pointers[r], wanted ? wanted : b_.getTrue(), access.cache);
    }
    return Values();
  };
  auto whole_vectors = [&] {
    const auto v = static_cast<std::size_t>(access.vector);
    llvm::Type* type = access_type(b_, access.vector * size, size);
    for (std::size_t r = 0; r < values.size(); r += v) {
      if (r & repeats) continue;
      Values elements;
      for (std::size_t i = 0; i < v; ++i)
        elements.push_back(raw[r + i]);
      Value* data = access_of(b_, type, packed(b_, type->getScalarType(), elements));
      Value* in_tile = access.in_tile(static_cast<int>(r));
      if (!in_tile && !access.cache.empty()) in_tile = b_.getTrue();
      if (in_tile)
        machine_.store_if(b_, data, access.pointers[r], in_tile, access.cache);
      else
        b_.CreateAlignedStore(data, access.pointers[r],
                              llvm::Align(static_cast<std::uint64_t>(access.vector * size)));
    }
    return Values();
  };
  auto all = [&] { either_way(access.inside, whole_vectors, by_element); };
  if (Value* first = owner(layout))
    emit::emit_if(b_, first, all);
  else
    all();
}

// Elements that a mask leaves out: a thread that wants all of its own takes the way of whole vectors.
void KernelEmitter::apply_mask(Access& access, const Values& mask) {
  Value* all = access.vector > 1 ? access.inside : nullptr;
  if (all)
    for (Value* m : mask)
      all = both(all, m);
  access.inside = all;
  access.wanted = [this, mask, inner = access.wanted](int r) {
    return both(inner(r), mask[static_cast<std::size_t>(r)]);
  };
}

namespace {

std::vector<std::int64_t> axes_of(const ir::Op& op) { return op.integers("axes"); }

} // namespace

void KernelEmitter::emit_view_load(const ir::Op& op) {
  if (streams_.contains(&op)) return;
  touch(*memory_touch(op));
  const LinearLayout layout = layout_of(op.result());
  Access access = view_access(op, layout, axes_of(op));
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
  Access access = view_access(op, layout, axes_of(op), part);
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
  const Access access = view_access(op, layout, axes_of(op));
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
  Access access = view_access(op, layout, axes_of(op));
  if (op.mask()) apply_mask(access, registers(op.mask(), layout));
  store(access, op.operand(0)->type.dtype, values, layout);
}

// --- Pointers and gathered elements: an access each, or vectors where axis analysis proves neighbours

// How many neighbouring registers, up to 16 bytes of them, hold runs of `places` that go up by one: pointers
// or indices. `others` are constant over such a run.
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

// Whether each vector of so many bytes lies at a multiple of them. Nothing says how pointers are aligned, so
// that each thread looks at its own.
Value* KernelEmitter::are_aligned(const Values& pointers, int vector, int bytes) {
  Value* low_bits = b_.getInt64(0);
  for (std::size_t r = 0; r < pointers.size(); r += static_cast<std::size_t>(vector))
    low_bits = b_.CreateOr(low_bits, b_.CreatePtrToInt(pointers[r], b_.getInt64Ty()));
  return b_.CreateICmpEQ(b_.CreateAnd(low_bits, static_cast<std::uint64_t>(bytes) - 1), b_.getInt64(0));
}

// Whether a thread has registers for both ways: until it has seen that all addresses are aligned and wanted,
// it keeps them, of two registers each, beside the values. Of 255 registers that was never too much.
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
  if (room_for_addresses(result.pointers.size())) result.vector = neighbours(op.operand(0), {}, layout, size);
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
  Values inside; // without what lies beyond the tile
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

// Loads and stores of single elements: through pointers, or gathered from a view by index.
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
