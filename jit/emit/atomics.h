// Atomic accesses to one element, as loops of compare-and-swap where there is nothing better.
#pragma once

#include <kiln/jit/emit/elementwise.h>

#include <string_view>

namespace kiln::emit {

// How an atomic acts; `scope` is LLVM's.
struct AtomicAccess {
  DType dtype;
  llvm::AtomicOrdering order = llvm::AtomicOrdering::AcquireRelease;
  llvm::SyncScope::ID scope = llvm::SyncScope::System;
  // Elements of 8 and 16 bits by compare-and-swap of the aligned word around them, whose other bytes stay.
  // LLVM would do so too, but after a plain load of the word, which races with the swaps of other threads.
  bool by_words = false;
};

// "relaxed", "acquire", "release", else both.
llvm::AtomicOrdering atomic_ordering(std::string_view order);

// A value as the bits that lie in memory, and back.
llvm::Value* to_bits(IRBuilder& b, const NumberOptions& numbers, llvm::Value* v, DType t);
llvm::Value* from_bits(IRBuilder& b, const NumberOptions& numbers, llvm::Value* bits, DType t);

// All give the bits before. `wanted` and `desired` are bits.
llvm::Value* emit_compare_and_swap(IRBuilder& b, const AtomicAccess& how, llvm::Value* pointer,
                                   llvm::Value* wanted, llvm::Value* desired);
// `kind` as in atomic_rmw, `operand` a value. The builder's block is split.
llvm::Value* emit_read_modify_write(IRBuilder& b, const NumberOptions& numbers, const AtomicAccess& how,
                                    std::string_view kind, llvm::Value* pointer, llvm::Value* operand);

} // namespace kiln::emit
