// The options by which a subcommand is told which kernels to compile, with which sizes and layout classes.
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
  std::string layouts;              // --layouts; empty: what tensors of these sizes have

  void add_to(CLI::App& app);
};

struct RequestedKernel {
  std::shared_ptr<const ir::Kernel> recorded;
  const RegisteredKernel* registered = nullptr; // null: from a file
  Config config;                                // the kernel's own under what was asked for
};

// At least one. UserError for what cannot be found or read.
std::vector<RequestedKernel> requested_kernels(const KernelOptions& options);

// Of each view. UserError if another number of classes was asked for.
std::vector<LayoutClass> layouts_of(const KernelOptions& options, const ir::Kernel& kernel,
                                    const Example& example);

} // namespace kiln::cli
