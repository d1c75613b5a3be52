// A compiled kernel on an emulated device, and its launch. Not for users.
#pragma once

#include <kiln/jit/emulator/emulator.h>
#include <kiln/jit/gpu/emit/kernel_emitter.h>
#include <kiln/jit/runtime/cuda/kernel_code.h>

namespace kiln::emulated {

// Immutable, so thread-safe.
struct KernelCode {
  std::shared_ptr<const emulator::Module> module;
  std::string name, entry; // as the user wrote it, as PTX spells it
  gpu::KernelShape shape;
  int words; // of the arguments
  std::vector<cuda::KernelCode::View> views;
  int device;
};

// Runs all programs of the grid, which has `rank` axes. UserError with the report if there is anything in it.
void run(const KernelCode& code, const std::int64_t* grid, int rank, const std::uint64_t* arguments);

} // namespace kiln::emulated
