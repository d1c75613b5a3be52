// Compiles a recorded kernel, or loads its code from the kernel cache. Internal: `kernel` and `assign` use
// it.
#pragma once

#include <kiln/dsl/error.h>
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

// The compile policy forbids a compilation.
class CompileForbidden : public UserError {
public:
  using UserError::UserError;
};

// The code of a kernel for one device, one config and one layout class per view. It is immutable and
// therefore thread-safe.
struct CompiledKernel {
  struct Axis { // an axis of the grid, which has cdiv(arguments[extent_word], tile) programs
    int extent_word;
    std::int64_t tile;
  };
  std::string name;
  std::vector<Axis> grid; // empty: launches pass the grid
  ir::Expectations expectations;
  CostModel cost;

  // For the CPU:
  std::shared_ptr<cpu::LoadedCode> code;
  std::int64_t scratch_bytes = 0; // per worker
  std::int64_t code_bytes = 0;    // of the object files
  std::int64_t stack_bytes = 0;   // stack frames of the kernel and of the routine with the largest frame
  cpu::Grouping grouping;         // how programs are grouped
  // For a CUDA device:
  std::shared_ptr<const cuda::KernelCode> cuda;
  // For an emulated device:
  std::shared_ptr<const emulated::KernelCode> emulated;
};

struct CompileRequest {
  const ir::Kernel& recorded;
  Config config;                    // as config_for returns it
  std::vector<LayoutClass> layouts; // one for each view
  Device device;
  SourceLocation where; // where the kernel was made
};

// The config without the options that the device lacks, so that they do not become part of a key, and with
// the defaults of those that it has: num_warps and max_registers on GPUs, none on CPUs.
Config config_for(DeviceKind kind, const Config& config);
inline Config config_for(Device device, const Config& config) { return config_for(device.kind(), config); }

// Binds, lowers and checks the kernel, and takes its code from the kernel cache or compiles and stores it.
// UserError for a config that does not fit, for operations that the device lacks, and if the policy forbids
// compiling. Thread-safe.
std::shared_ptr<const CompiledKernel> compile_kernel(const CompileRequest& request);

} // namespace kiln
