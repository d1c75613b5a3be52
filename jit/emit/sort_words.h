// Emits the conversion between elements and the words that sorts compare, in the order of
// dsl/ir/sort_order.h.
#pragma once

#include <kiln/jit/emit/elementwise.h>

namespace kiln::emit {

// What a sort moves: the key of an element or, if the indices are needed, the key with the index below it, so
// that words differ and equal elements keep their order. A word has 8, 16, 32, 64 or 128 bits.
struct SortWord {
  DType dtype;
  bool descending;
  int key_bits, index_bits, bits;
  llvm::Type* type(IRBuilder& b) const { return b.getIntNTy(static_cast<unsigned>(bits)); }
};
// Of a line of `length` elements.
SortWord sort_word(DType t, bool descending, std::int64_t length, bool with_indices);
// The word of an element that is given as it is in memory. `index` is an integer that the word has room for.
llvm::Value* emit_sort_word(IRBuilder& b, const SortWord& word, llvm::Value* stored, llvm::Value* index);
llvm::Value* emit_index_of(IRBuilder& b, const SortWord& word, llvm::Value* v);   // i32
llvm::Value* emit_element_of(IRBuilder& b, const SortWord& word, llvm::Value* v); // as it is in memory

} // namespace kiln::emit
