// Emits compare-and-swap of one element, and other atomic operations as loops around it.
#pragma once

#include <kiln/jit/emit/elementwise.h>

#include <functional>
#include <string_view>

namespace kiln::emit {

// The dtype, ordering and scope of an atomic access. `scope` is a synchronization scope of LLVM.
struct AtomicAccess {
  DType dtype;
  llvm::AtomicOrdering order = llvm::AtomicOrdering::AcquireRelease;
  llvm::SyncScope::ID scope = llvm::SyncScope::System;
  // The fewest bytes that the target can swap. A smaller element is swapped as part of the aligned word of
  // that size around it, whose other bytes stay as they are. LLVM would do this too, but after a plain load
  // of the word, which races with the swaps of other threads.
  int fewest_bytes = 1;
  // Writes nothing where the old value is the new one, as that of a maximum mostly is. No other thread can
  // detect the difference. Only for operations whose result does not change if they are repeated.
  bool skips_unchanged = false;
  // Emits the swap of such a word, and returns its old bits; empty: LLVM's cmpxchg is used.
  std::function<llvm::Value*(llvm::Value* pointer, llvm::Value* wanted, llvm::Value* desired)> swap = {};
};

// The ordering for "relaxed", "acquire" and "release", and for any other text acquire and release.
llvm::AtomicOrdering atomic_ordering(std::string_view order);

// Converts a value to the bits that it has in memory, and back.
llvm::Value* to_bits(IRBuilder& b, const NumberOptions& numbers, llvm::Value* v, DType t);
llvm::Value* from_bits(IRBuilder& b, const NumberOptions& numbers, llvm::Value* bits, DType t);

// Returns what an atomic_rmw of this kind stores where `old` is in memory. All values may be vectors.
llvm::Value* emit_updated(IRBuilder& b, const NumberOptions& numbers, std::string_view kind, DType t,
                          llvm::Value* old, llvm::Value* operand);

// Both return the old bits. `wanted` and `desired` are bits.
llvm::Value* emit_compare_and_swap(IRBuilder& b, const AtomicAccess& how, llvm::Value* pointer,
                                   llvm::Value* wanted, llvm::Value* desired);
// `kind` is that of atomic_rmw, and `operand` is a value. The builder's block is split.
llvm::Value* emit_read_modify_write(IRBuilder& b, const NumberOptions& numbers, const AtomicAccess& how,
                                    std::string_view kind, llvm::Value* pointer, llvm::Value* operand);

// The same for consecutive elements, which are swapped together and must be aligned to their total size: a
// power of two of at most 16 bytes that the target can swap. `operand` and the result are vectors of values.
llvm::Value* emit_joint_update(IRBuilder& b, const NumberOptions& numbers, const AtomicAccess& how,
                               std::string_view kind, llvm::Value* pointer, llvm::Value* operand);

} // namespace kiln::emit
