// How many registers a kernel's tiles take in each thread, before anything is compiled.
#pragma once

#include <kiln/jit/gpu/layout_plan.h>

namespace kiln::gpu {

struct RegisterNeed {
  std::int64_t largest = 0; // of one tile, in 32-bit registers a thread
  const ir::Value* largest_tile = nullptr;
  std::int64_t at_once = 0; // of the tiles that are alive at the same time, at worst
};

// An estimate from the layouts alone: elements of fewer than 32 bits take a register each unless a load
// brings several at once, addresses and whatever LLVM and ptxas rematerialise are left out. A thread has 255
// registers; past that they spill. `lowered` is bound and lowered.
RegisterNeed register_need(const ir::Kernel& lowered, const LayoutPlan& plan);

} // namespace kiln::gpu
