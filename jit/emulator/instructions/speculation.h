// Plain loads that only guess what a compare-and-swap will find.
//
//   ld.global.u32 %old, [%a];
//   AGAIN: %new = f(%old); atom.global.cas.b32 %was, [%a], %old, %new; %old = %was unless they are equal
//
// is how CUDA makes the atomics that a GPU lacks. The load may race with other threads' atomics: whatever it
// gets goes nowhere but into the swap of the same word, which fails unless it was right. Where it goes
// anywhere else, to memory, an address or a branch, before a swap has confirmed it, it is a load like others.
#pragma once

#include <kiln/jit/emulator/ptx/ast.h>

#include <vector>

namespace kiln::emulator {

struct Guess {
  std::size_t load, swap; // statements of the body
};
std::vector<Guess> speculative_loads(const ptx::Function& function);

} // namespace kiln::emulator
