// kiln explain: what a kernel becomes on its way to machine code, and what it costs.
#include <kiln/jit/cli/explain.h>

#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/cli/kernel_file.h>
#include <kiln/jit/cli/parse.h>
#include <kiln/jit/cli/registry.h>
#include <kiln/jit/runtime/options.h>

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

namespace kiln::cli {

namespace {

constexpr const char* description =
    "Shows what a kernel becomes on its way to machine code, and what it should cost.\n"
    "KERNEL is the name of a registered kernel (`kiln kernels` lists them) or a file of tile IR, as\n"
    "KILN_KEEP=tile writes them; - reads the standard input.\n\n"
    "  kiln explain matmul --size M=1000 --config BM=32 --asm\n"
    "  kiln explain scale.kir --config BM=1024 --size x=1000000 --bandwidth 20";

bool has_dimension(const ir::Kernel& kernel, std::string_view name) {
  for (const char* dimension : kernel.dimensions())
    if (dimension == name) return true;
  return false;
}

// The sizes that concern one of a file's kernels. KILN_KEEP=tile writes a kernel as recorded and as lowered,
// which has no dimensions any more. A size that no kernel has stays, to be complained about.
std::string config_for(const ir::Kernel& kernel, const std::vector<std::unique_ptr<ir::Kernel>>& all,
                       const Config& config) {
  Config own;
  for (const Binding& b : config) {
    bool of_others = false;
    for (const auto& other : all)
      of_others |= has_dimension(*other, b.name);
    if (!of_others || has_dimension(kernel, b.name)) own.set(b.name, b.value);
  }
  return own.to_string();
}

std::vector<Explanation> explain_all(const std::string& what, const ExplainOptions& options) {
  std::vector<Explanation> explanations;
  if (const RegisteredKernel* registered = find_kernel(what)) {
    Config config = Config::parse(registered->config);
    for (const Binding& b : Config::parse(options.config))
      config.set(b.name, b.value);
    explanations.push_back(explain(*registered->record(config), registered, options));
    return explanations;
  }
  auto kernels = kernels_of_file(what);
  for (auto& kernel : kernels) {
    ExplainOptions own = options;
    own.config = config_for(*kernel, kernels, Config::parse(options.config));
    explanations.push_back(explain(*kernel, nullptr, own));
  }
  return explanations;
}

int run_explain(int argc, char** argv) {
  CLI::App app(description, "kiln explain");
  std::string what;
  std::vector<std::string> configs;
  ExplainOptions options;
  Sections sections;
  bool json = false;
  app.add_option("KERNEL", what, "a registered kernel, or a file of tile IR")->required();
  app.add_option("--config", configs, "sizes of dimensions, BM=64,BN=64, over the kernel's own")
      ->allow_extra_args(false);
  app.add_option("--size", options.sizes,
                 "sizes of the arguments: M=1000,N=64, or x=512x64 for one parameter")
      ->allow_extra_args(false);
  app.add_option("--layouts", options.layouts,
                 "layout class of each view: any, unit or aligned, as in unit,any (default: what contiguous "
                 "tensors of the sizes have)");
  app.add_option("--grid", options.grid,
                 "programs along each axis, as in 16x4, where the launch gives the grid");
  app.add_option("--cpu", options.cpu, "compile for this CPU, by LLVM's name (default: the one here)");
  app.add_flag("--debug", options.debug, "with the checks that KILN_DEBUG=1 adds");
  app.add_option("--bandwidth", options.bandwidth, "memory bandwidth in GB/s, for the time at best")
      ->check(CLI::PositiveNumber);
  app.add_option("--peak", options.peak, "arithmetic peak in GFLOP/s, for the time at best")
      ->check(CLI::PositiveNumber);
  app.add_flag("--passes", sections.passes, "show tile IR and what each pass changed");
  app.add_flag("--llvm", sections.llvm, "show LLVM IR as emitted and as optimised");
  app.add_flag("--asm", sections.assembly, "show assembly beside the source lines");
  app.add_flag(
      "--pictures", sections.pictures,
      "show in which layouts a GPU's threads hold the tiles (num_warps in the config: warps of a block)");
  app.add_option("--source", sections.source_folder, "folder of the sources for --asm (default: here)");
  app.add_flag("--all", sections.all, "show all of these, with whole tile IR after each pass");
  app.add_flag("--json", json, "print everything as JSON, one object a kernel");
  if (auto code = parse(app, argc, argv)) return *code;
  options.debug |= kiln::options().debug;
  for (const std::string& config : configs)
    options.config += (options.config.empty() ? "" : ",") + config;
  if (!sections.llvm && !sections.assembly && !sections.pictures) sections.passes = true;
  bool first = true;
  for (const Explanation& explanation : explain_all(what, options)) {
    fmt::print("{}{}", first || json ? "" : "\n",
               json ? to_json(explanation) : to_text(explanation, sections));
    first = false;
  }
  return 0;
}

const CommandRegistration registration({"explain", "shows what a kernel becomes and what it costs",
                                        run_explain});

} // namespace
} // namespace kiln::cli
