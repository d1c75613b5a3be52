// Holds the code of a kernel for an emulated device, and runs it. Internal.
#pragma once

#include <kiln/jit/emulator/emulator.h>
#include <kiln/jit/gpu/emit/kernel_emitter.h>
#include <kiln/jit/runtime/cuda/kernel_code.h>

namespace kiln::emulated {

// Immutable, and therefore thread-safe.
struct KernelCode {
  std::shared_ptr<const emulator::Module> module;
  std::string name, entry; // the user's name and the name in PTX
  gpu::KernelShape shape;
  int words; // number of argument words
  std::vector<cuda::KernelCode::View> views;
  int device;
};

// Runs all programs of the grid, which has `rank` axes. UserError with the report if the emulator found
// mistakes.
void run(const KernelCode& code, const std::int64_t* grid, int rank, const std::uint64_t* arguments);

} // namespace kiln::emulated
