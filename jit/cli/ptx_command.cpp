// kiln ptx: a kernel as PTX, and what NVIDIA's assembler says of it.
#include <kiln/jit/cli/example.h>
#include <kiln/jit/cli/kernel_file.h>
#include <kiln/jit/cli/parse.h>
#include <kiln/jit/cli/registry.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/gpu/ptxas.h>
#include <kiln/jit/passes/passes.h>

#include <fmt/format.h>

#include <iostream>
#include <sstream>

namespace kiln::cli {

namespace {

constexpr const char* description =
    "Prints a kernel as PTX, with what ptxas says of it (registers, spills) as comments where there is one.\n"
    "KERNEL is the name of a registered kernel (`kiln kernels` lists them) or a file of tile IR; - reads "
    "the\n"
    "standard input. num_warps in the config sets the warps of a block (default 4).\n\n"
    "  kiln ptx softmax --arch sm_90a --config BN=1024,num_warps=8";

struct PtxCommand {
  std::string arch = "sm_80", layouts;
  std::vector<std::string> configs, sizes;
  bool show_llvm = false, report = true;
};

void print(const ir::Kernel& recorded, const RegisteredKernel* registered, const PtxCommand& command,
           const Config& config) {
  Example example = make_example(recorded, registered, command.sizes);
  std::vector<LayoutClass> layouts = parse_layouts(command.layouts);
  if (layouts.empty()) layouts = example.layouts;
  if (layouts.size() != example.layouts.size())
    throw UserError(fmt::format("--layouts {}: {} classes, but kernel {} has {} views; give one for each",
                                command.layouts, layouts.size(), recorded.name, example.layouts.size()));
  gpu::PtxOptions options;
  options.keep_llvm = command.show_llvm;
  Config sizes;
  for (const Binding& b : config)
    if (std::string_view(b.name) == "num_warps")
      options.warps = static_cast<int>(b.value);
    else if (!is_option(b.name))
      sizes.set(b.name, b.value);
  auto lowered = passes::lower_generic(recorded, {sizes, layouts});
  gpu::Ptx ptx = gpu::compile_to_ptx(*lowered, {command.arch}, options);
  if (command.show_llvm) std::cout << ptx.llvm << '\n';
  std::cout << ptx.text;
  fmt::print("// kernel {}: {} warps, {} bytes of dynamic shared memory\n", recorded.name, ptx.shape.warps,
             ptx.shape.shared_bytes);
  std::fflush(stdout);
  if (!command.report || gpu::ptxas_path().empty()) return;
  std::istringstream log(gpu::assemble(ptx.text, command.arch).log);
  for (std::string line; std::getline(log, line);)
    std::cout << "// " << line << '\n';
}

int run_ptx(int argc, char** argv) {
  CLI::App app(description, "kiln ptx");
  std::string what;
  PtxCommand command;
  app.add_option("KERNEL", what, "a registered kernel, or a file of tile IR")->required();
  app.add_option("--arch", command.arch, "sm_80, sm_90a or sm_100a (default: sm_80)");
  app.add_option("--config", command.configs,
                 "sizes of dimensions and options, BM=64,num_warps=8, over the kernel's own")
      ->allow_extra_args(false);
  app.add_option("--size", command.sizes, "a size of the arguments: M=1000, or x=512x64 for one parameter")
      ->allow_extra_args(false);
  app.add_option("--layouts", command.layouts,
                 "layout class of each view: any, unit or aligned, as in unit,any (default: what contiguous "
                 "tensors of the sizes have)");
  app.add_flag("--llvm", command.show_llvm, "show the LLVM IR as emitted first");
  app.add_flag("!--no-report", command.report, "do not run ptxas");
  if (auto code = parse(app, argc, argv)) return *code;
  std::string given;
  for (const std::string& part : command.configs)
    given += (given.empty() ? "" : ",") + part;
  const RegisteredKernel* registered = find_kernel(what);
  Config config = Config::parse(registered ? registered->config : "");
  for (const Binding& b : Config::parse(given))
    config.set(b.name, b.value);
  if (registered) {
    print(*registered->record(config), registered, command, config);
  } else {
    for (const auto& kernel : kernels_of_file(what))
      print(*kernel, nullptr, command, config);
  }
  return 0;
}

const CommandRegistration registration({"ptx", "prints a kernel as PTX for an NVIDIA GPU", run_ptx});

} // namespace

} // namespace kiln::cli
