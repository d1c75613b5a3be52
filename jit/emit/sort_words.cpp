// Emits the words of sorts with a few operations on the bits of an element.
#include <kiln/jit/emit/sort_words.h>

#include <kiln/dsl/ir/sort_order.h>

#include <algorithm>
#include <bit>

namespace kiln::emit {

using llvm::Value;

namespace {

Value* constant(Value* like, std::uint64_t bits) {
  return llvm::ConstantInt::get(like->getType(), bits, false, /*ImplicitTrunc=*/true);
}

std::uint64_t top_bit(DType t) { return std::uint64_t{1} << (ir::key_bits(t) - 1); }

// The key of an element (dsl/ir/sort_order.h). Descending keys are the complements.
Value* emit_sort_key(IRBuilder& b, Value* stored, DType t, bool descending) {
  llvm::Type* type = same_lanes(b.getIntNTy(static_cast<unsigned>(ir::key_bits(t))), stored);
  Value* bits = b.CreateBitCast(stored, type);
  Value* key = bits;
  if (is_float(t)) {
    Value* negative = b.CreateICmpSLT(bits, constant(bits, 0));
    Value* magnitude = b.CreateAnd(bits, constant(bits, ~top_bit(t)));
    key = b.CreateSelect(negative, b.CreateNot(bits), b.CreateXor(bits, constant(bits, top_bit(t))));
    Value* nan = b.CreateICmpUGT(magnitude, constant(bits, ir::greatest_magnitude(t)));
    key = b.CreateSelect(nan, llvm::Constant::getAllOnesValue(type), key);
  } else if (is_signed(t)) {
    key = b.CreateXor(bits, constant(bits, top_bit(t)));
  }
  return descending ? b.CreateNot(key) : key;
}

// The element that has a key. A NaN is some NaN.
Value* emit_sorted_element(IRBuilder& b, Value* key, DType t, bool descending) {
  if (descending) key = b.CreateNot(key);
  Value* bits = key;
  if (is_float(t)) {
    Value* positive = b.CreateICmpSLT(key, constant(key, 0));
    bits = b.CreateSelect(positive, b.CreateXor(key, constant(key, top_bit(t))), b.CreateNot(key));
  } else if (is_signed(t)) {
    bits = b.CreateXor(key, constant(key, top_bit(t)));
  }
  // The types of f32 and f64 in memory are floats.
  const bool as_float = t == DType::F32 || t == DType::F64;
  return as_float ? b.CreateBitCast(bits, same_lanes(memory_type(b.getContext(), t), bits)) : bits;
}

} // namespace

SortWord sort_word(DType t, bool descending, std::int64_t length, bool with_indices) {
  const int key = ir::key_bits(t);
  if (!with_indices) return {t, descending, key, 0, key};
  const int needed = key + static_cast<int>(std::bit_width(static_cast<std::uint64_t>(length - 1) | 1));
  const int bits = static_cast<int>(std::bit_ceil(static_cast<unsigned>(needed)));
  return {t, descending, key, bits - key, bits};
}

Value* emit_sort_word(IRBuilder& b, const SortWord& word, Value* stored, Value* index) {
  Value* key = emit_sort_key(b, stored, word.dtype, word.descending);
  if (!word.index_bits) return key;
  llvm::Type* type = same_lanes(word.type(b), key);
  Value* shift = llvm::ConstantInt::get(type, static_cast<std::uint64_t>(word.index_bits));
  return b.CreateOr(b.CreateShl(b.CreateZExt(key, type), shift), b.CreateZExtOrTrunc(index, type));
}

Value* emit_index_of(IRBuilder& b, const SortWord& word, Value* v) {
  const std::uint64_t below = (std::uint64_t{1} << std::min(word.index_bits, 31)) - 1;
  return b.CreateZExtOrTrunc(b.CreateAnd(v, constant(v, below)), same_lanes(b.getInt32Ty(), v));
}

Value* emit_element_of(IRBuilder& b, const SortWord& word, Value* v) {
  if (word.index_bits) {
    Value* shift = llvm::ConstantInt::get(v->getType(), static_cast<std::uint64_t>(word.index_bits));
    v = b.CreateTrunc(b.CreateLShr(v, shift),
                      same_lanes(b.getIntNTy(static_cast<unsigned>(word.key_bits)), v));
  }
  return emit_sorted_element(b, v, word.dtype, word.descending);
}

} // namespace kiln::emit
