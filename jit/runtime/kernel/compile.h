// From a recorded kernel to code that runs. Not for users: `kernel` and `assign` stand on it.
#pragma once

#include <kiln/dsl/ir/expectations.h>
#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/cpu/facts/grouped_product.h>
#include <kiln/jit/cpu/object/engine.h>
#include <kiln/jit/runtime/cpu/program_cost.h>
#include <kiln/jit/runtime/device.h>

#include <memory>
#include <string>
#include <vector>

namespace kiln {

namespace cuda {
struct KernelCode;
}
namespace emulated {
struct KernelCode;
}

// A kernel for one device, config and list of layout classes. Immutable, so thread-safe.
struct CompiledKernel {
  struct Axis { // cdiv(arguments[extent_word], tile) programs
    int extent_word;
    std::int64_t tile;
  };
  std::string name;
  std::vector<Axis> grid; // empty: the launch gives the grid
  ir::Expectations expectations;
  CostModel cost;

  // On the CPU:
  std::shared_ptr<cpu::LoadedCode> code;
  std::int64_t scratch_bytes = 0; // per worker
  std::int64_t code_bytes = 0;    // of the object files
  std::int64_t stack_bytes = 0;   // the largest frames of the kernel and of a routine that it calls
  cpu::Grouping grouping;         // how programs are grouped
  // On a CUDA device:
  std::shared_ptr<const cuda::KernelCode> cuda;
  // On an emulated device:
  std::shared_ptr<const emulated::KernelCode> emulated;
};

struct CompileRequest {
  const ir::Kernel& recorded;
  Config config;                    // as config_for gives it
  std::vector<LayoutClass> layouts; // one for each view
  Device device;
  SourceLocation where; // of the kernel
};

// The config without the options that the device lacks, so that they are part of no key, and with the default
// of those that it has: a CPU has none, a CUDA device and an emulated one num_warps and max_registers.
Config config_for(DeviceKind kind, const Config& config);
inline Config config_for(Device device, const Config& config) { return config_for(device.kind(), config); }

// Binds, lowers, checks, and takes the code from the cache on disk or compiles and stores it.
// UserError for a config that does not fit, operations the device lacks, or if the policy forbids compiling.
// Thread-safe.
std::shared_ptr<const CompiledKernel> compile_kernel(const CompileRequest& request);

} // namespace kiln
