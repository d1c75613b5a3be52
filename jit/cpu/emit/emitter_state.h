// Defines what KernelEmitter remembers while it emits a kernel: about views, prefetches, the store that is
// deferred, the copies of arrays that threads add to, and groups of programs.
#pragma once

#include <kiln/jit/cpu/emit/nest.h>

#include <llvm/IR/ValueHandle.h>

namespace kiln::cpu {

// The properties of a parameter that is a view, as LLVM values that are loaded once per call of the entry
// point.
struct ViewFacts {
  llvm::Value* data = nullptr;
  Values extents, strides;
  // The following are created when they are first needed.
  llvm::Value *low = nullptr, *high = nullptr; // the bytes that it spans, as integers
  llvm::Value* streams = nullptr;              // whether stores to it bypass the caches
  llvm::Value* ahead = nullptr;                // how many bytes ahead a loop prefetches it
};

// The prefetches of the tile below the one that a load reads.
struct Prefetches {
  int nest = 0;  // nests that read the tile before the one that prefetches; 0: that is the first
  int scope = 0; // the scope of that nest
  bool by_all = false, by_one = false; // whether all nests that read it prefetch, or one; with a fast L3
  std::vector<llvm::WeakVH> calls;
};

// The last store of a program, which is carried out during the next program.
struct Deferral {
  const ir::Op* store = nullptr; // the store that is deferred; null: none
  llvm::Function* body = nullptr;
  llvm::Value *position = nullptr, *end = nullptr; // stack slots: the columns that are still to be stored
  llvm::Value* half = nullptr;                     // stack slot: where this program's scratch begins
  llvm::Instruction* half_bytes = nullptr;         // stands for a constant that follows from the whole kernel
  llvm::Instruction* before_store = nullptr;
  struct Host { // a vector loop that every program executes
    llvm::PHINode* index;
    std::int64_t step, lanes;
    std::size_t instructions;
  };
  std::vector<Host> hosts;
};

// A thread's own copy of an array, to which it adds.
struct OwnCopy {
  Buffer buffer;
  llvm::Value* used = nullptr;  // i1: sums are added to the copy
  llvm::Value* bytes = nullptr; // of the copy; 0 if it is not used
  llvm::Value* array = nullptr; // the lowest address of the array
};

// A group of programs that share products.
struct ProgramGroup {
  Values size;                   // largest number of programs along each axis of the grid
  std::vector<Buffer> sums;      // of the whole group, one for each product
  std::vector<Buffer> parts;     // this program's parts of them
  llvm::Value* stored = nullptr; // i1: the sums are added up in the view to which the kernel stores them
  llvm::Value* shared = nullptr; // i1: the current programs share their sums; null: all programs do
};

} // namespace kiln::cpu
