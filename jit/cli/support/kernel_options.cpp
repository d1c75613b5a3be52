// Finds the kernels of a command line, and computes their configs.
#include <kiln/jit/cli/support/kernel_options.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/cli/support/kernel_file.h>
#include <kiln/jit/cli/support/registry.h>

#include <CLI/CLI.hpp>

namespace kiln::cli {

namespace {

bool has_dimension(const ir::Kernel& kernel, std::string_view name) {
  for (const char* dimension : kernel.dimensions())
    if (dimension == name) return true;
  return false;
}

// Selects the sizes that concern one of several kernels of a file. For example, KILN_KEEP=tile writes a
// kernel as recorded and as lowered, and the latter has no dimensions. A size that no kernel has is kept, so
// that it causes an error.
Config config_for(const ir::Kernel& kernel, const std::vector<std::unique_ptr<ir::Kernel>>& all,
                  const Config& config) {
  Config own;
  for (const Binding& b : config) {
    bool of_others = false;
    for (const auto& other : all)
      of_others |= has_dimension(*other, b.name);
    if (!of_others || has_dimension(kernel, b.name)) own.set(b.name, b.value);
  }
  return own;
}

} // namespace

void KernelOptions::add_to(CLI::App& app) {
  app.add_option("KERNEL", what, "a registered kernel, or a file of tile IR")->required();
  app.add_option(
         "--config", configs,
         "sizes of dimensions and options, as in BM=64,num_warps=8, in place of the kernel's defaults")
      ->allow_extra_args(false);
  app.add_option("--size", sizes, "sizes of the arguments: M=1000,N=64, or x=512x64 for one parameter")
      ->allow_extra_args(false);
  app.add_option("--layouts", layouts,
                 "layout class of each view: any, unit or aligned, as in unit,any (default: that of "
                 "contiguous tensors of these sizes)");
}

std::vector<RequestedKernel> requested_kernels(const KernelOptions& options) {
  std::string text;
  for (const std::string& part : options.configs)
    text += (text.empty() ? "" : ",") + part;
  const Config asked = Config::parse(text);
  std::vector<RequestedKernel> requested;
  if (const RegisteredKernel* registered = find_kernel(options.what)) {
    Config config = Config::parse(registered->config);
    for (const Binding& b : asked)
      config.set(b);
    requested.push_back({registered->record(config), registered, config});
    return requested;
  }
  auto kernels = kernels_of_file(options.what);
  std::vector<Config> configs;
  for (const auto& kernel : kernels)
    configs.push_back(config_for(*kernel, kernels, asked));
  for (std::size_t i = 0; i < kernels.size(); ++i)
    requested.push_back({std::move(kernels[i]), nullptr, configs[i]});
  return requested;
}

std::vector<LayoutClass> layouts_of(const KernelOptions& options, const ir::Kernel& kernel,
                                    const Example& example) {
  std::vector<LayoutClass> layouts = parse_layouts(options.layouts);
  if (layouts.empty()) return example.layouts;
  if (layouts.size() != example.layouts.size())
    throw UserError("--layouts " + options.layouts + ": " + std::to_string(layouts.size()) +
                    " classes, but kernel " + kernel.name + " has " + std::to_string(example.layouts.size()) +
                    " views; give one for each");
  return layouts;
}

} // namespace kiln::cli
