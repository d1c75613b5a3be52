// Parses the options of subcommands that compile kernels: which kernels, sizes and layout classes.
#pragma once

#include <kiln/jit/cli/support/example.h>

#include <kiln/dsl/config.h>

#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace kiln::cli {

struct KernelOptions {
  std::string what;                 // KERNEL: a registered kernel, or a file of tile IR
  std::vector<std::string> configs; // --config
  std::vector<std::string> sizes;   // --size
  std::string layouts;              // --layouts; empty: the classes of contiguous tensors of these sizes

  void add_to(CLI::App& app);
};

struct RequestedKernel {
  std::shared_ptr<const ir::Kernel> recorded;
  const RegisteredKernel* registered = nullptr; // null if the kernel is from a file
  Config config;                                // the kernel's defaults, replaced by the options
};

// At least one kernel. UserError if a kernel cannot be found or read.
std::vector<RequestedKernel> requested_kernels(const KernelOptions& options);

// The layout class of each view. UserError if the options give a different number of classes.
std::vector<LayoutClass> layouts_of(const KernelOptions& options, const ir::Kernel& kernel,
                                    const Example& example);

} // namespace kiln::cli
