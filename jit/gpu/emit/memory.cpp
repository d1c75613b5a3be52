// Emits the loads and stores of a tile whose addresses and predicates are known.
//
// Consecutive registers whose elements are neighbours in memory are accessed together, up to 16 bytes at a
// time. Whether the whole tile lies inside its view is one condition, so there are two versions of the
// accesses: vectors without tests, and single elements under predicates.
#include <kiln/jit/gpu/emit/kernel_emitter.h>
#include <kiln/jit/gpu/emit/vectors.h>

#include <llvm/IR/PatternMatch.h>

#include <algorithm>

namespace kiln::gpu {

using llvm::Value;

namespace {

// The type of an access: an integer of `bytes` bytes, or a vector of integers.
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

// Packs the bits of elements next to each other into words.
Values packed(IRBuilder& b, llvm::Type* word, const Values& elements) {
  const std::size_t in_word = word->getIntegerBitWidth() / elements[0]->getType()->getIntegerBitWidth();
  if (in_word == 1) return elements;
  Values words;
  for (std::size_t i = 0; i < elements.size(); i += in_word) { // LLVM simplifies the bitcast of a vector
    Value* lanes =
        llvm::PoisonValue::get(emit::lanes_type(elements[0]->getType(), static_cast<int>(in_word)));
    for (std::size_t j = 0; j < in_word; ++j)
      lanes = b.CreateInsertElement(lanes, elements[i + j], j);
    words.push_back(b.CreateBitCast(lanes, word));
  }
  return words;
}

// Unpacks a word into values of dtype `t`.
Values unpacked(IRBuilder& b, const emit::NumberOptions& numbers, Value* word, DType t) {
  Values result;
  auto* bits = b.getIntNTy(static_cast<unsigned>(memory_bytes(t)) * 8);
  const unsigned in_word = word->getType()->getIntegerBitWidth() / bits->getIntegerBitWidth();
  for (unsigned j = 0; j < in_word; ++j) {
    if (t == DType::BF16 && in_word == 2) { // a bf16 in the upper half of a word is an f32
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

// The value before it was rounded to a narrow float, if it was: rounding that for the store gives the same
// result.
Value* before_rounding(Value* v) {
  using namespace llvm::PatternMatch;
  Value* x = nullptr;
  return match(v, m_FPExt(m_BitCast(m_BitCast(m_FPTrunc(m_Value(x)))))) ? x : v;
}

} // namespace

// The results of `fast` in threads in which `whole` holds, and those of `slow` in others; null: in none.
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

// Loads the bits of one element, in parts if its address may be misaligned.
Value* KernelEmitter::load_element(const Access& access, std::size_t i, int size, Value* wanted,
                                   Value* otherwise) {
  llvm::Type* bits = otherwise->getType();
  if (access.align == 0 || access.align >= size)
    return machine_.load_if(b_, bits, access.pointers[i], wanted, otherwise, access.cache);
  const auto part_bits = static_cast<unsigned>(access.align) * 8;
  llvm::Type* part = b_.getIntNTy(part_bits);
  Value* whole = nullptr;
  for (int at = 0; at < size; at += access.align) {
    const auto shift = static_cast<std::uint64_t>(at) * 8;
    Value* address =
        b_.CreateGEP(b_.getInt8Ty(), access.pointers[i], b_.getInt64(static_cast<std::uint64_t>(at)));
    Value* other = b_.CreateTrunc(b_.CreateLShr(otherwise, shift), part);
    Value* loaded = b_.CreateZExt(machine_.load_if(b_, part, address, wanted, other, access.cache), bits);
    whole = whole ? b_.CreateOr(whole, b_.CreateShl(loaded, shift)) : loaded;
  }
  return whole;
}

// Emits the loads of a tile. The result is a function that unpacks them into values as registers hold them.
// Elements that are not wanted are `otherwise`.
std::function<Values()> KernelEmitter::load(const Access& access, DType t, const Values& otherwise) {
  const int size = memory_bytes(t), vector = access.inside ? access.vector : 1;
  llvm::Type *bits = b_.getIntNTy(static_cast<unsigned>(size) * 8),
             *type = access_type(b_, vector * size, size);
  const auto v = static_cast<std::size_t>(vector);
  // Narrow elements stay packed in words until they are used, because many would fill all registers.
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
        elements.push_back(load_element(access, i, size, wanted ? wanted : b_.getTrue(), raw));
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
  // Narrow two values at a time if one instruction does that.
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

// Adds a mask to an access. A thread takes the path of vectors if the mask selects all of its elements.
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

} // namespace kiln::gpu
