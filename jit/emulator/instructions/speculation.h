// Finds plain loads that only guess the value for a compare-and-swap.
//
//   ld.global.u32 %old, [%a];
//   AGAIN: %new = f(%old); atom.global.cas.b32 %was, [%a], %old, %new; %old = %was unless they are equal
//
// is how CUDA implements the atomics that a GPU lacks. The load may race with other threads' atomics, because
// its value is used only in the swap of the same word, which fails if the value was wrong. If the value is
// used otherwise, in memory, an address or a branch, before a swap has confirmed it, the load is an ordinary
// one.
#pragma once

#include <kiln/jit/emulator/ptx/ast.h>

#include <vector>

namespace kiln::emulator {

struct Guess {
  std::size_t load, swap; // indices of statements in the body
};
std::vector<Guess> speculative_loads(const ptx::Function& function);

} // namespace kiln::emulator
