// Estimates how many registers the tiles of a kernel take in each thread, before the kernel is compiled.
#pragma once

#include <kiln/jit/gpu/layout_plan.h>

namespace kiln::gpu {

struct RegisterNeed {
  std::int64_t largest = 0; // of one tile, in 32-bit registers of a thread
  const ir::Value* largest_tile = nullptr;
  std::int64_t at_once = 0; // of all tiles that are live at the same time, at most
};

// The estimate follows from layouts alone. Elements of fewer than 32 bits count as a register each unless one
// load brings several of them; addresses, and what LLVM and ptxas rematerialise, are not counted. A thread
// has 255 registers, and what exceeds them spills. `lowered` is bound and lowered.
RegisterNeed register_need(const ir::Kernel& lowered, const LayoutPlan& plan);

} // namespace kiln::gpu
