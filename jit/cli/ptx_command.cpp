// Implements `kiln ptx`: prints a kernel as PTX, and the report of ptxas about it.
#include <kiln/jit/cli/support/kernel_options.h>
#include <kiln/jit/cli/support/parse.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/jit/gpu/block_bound.h>
#include <kiln/jit/gpu/compiler.h>
#include <kiln/jit/gpu/ptxas.h>
#include <kiln/jit/passes/passes.h>

#include <fmt/format.h>

#include <iostream>
#include <sstream>

namespace kiln::cli {

namespace {

constexpr const char* ptx_description = "Prints a kernel as PTX, followed by the report of ptxas (registers, "
                                        "spills) as comments, if it is found.\n"
                                        "KERNEL is the name of a registered kernel (`kiln kernels` lists "
                                        "them) or a file of tile IR; - reads the\n"
                                        "standard input. In the config, num_warps sets the warps of a block "
                                        "(default 4), and max_registers limits\n"
                                        "the registers of a thread.\n\n"
                                        "  kiln ptx softmax --arch sm_90a --config BN=1024,num_warps=8";

struct PtxCommand {
  KernelOptions kernels;
  std::string arch = "sm_80";
  bool show_llvm = false, report = true;
};

void print(const RequestedKernel& kernel, const PtxCommand& command) {
  const ir::Kernel& recorded = *kernel.recorded;
  const Example example = make_example(recorded, kernel.registered, command.kernels.sizes);
  Config sizes;
  for (const Binding& b : kernel.config)
    if (!is_option(b.name)) sizes.set(b.name, b.value);
  auto lowered = passes::lower_generic(recorded, {sizes, layouts_of(command.kernels, recorded, example)});
  gpu::PtxOptions options = gpu::ptx_options(recorded.name, kernel.config);
  options.keep_llvm = command.show_llvm;
  gpu::Ptx ptx = gpu::compile_to_ptx(*lowered, {command.arch}, options);
  gpu::Assembled assembled;
  const bool report = command.report && !gpu::ptxas_version().empty();
  if (report) assembled = gpu::assemble_either_way(ptx.text, command.arch);
  if (command.show_llvm) std::cout << ptx.llvm << '\n';
  std::cout << ptx.text;
  fmt::print("// kernel {}: {} warps, {} bytes of dynamic shared memory\n", recorded.name, ptx.shape.warps,
             ptx.shape.shared_bytes);
  if (const std::string unused = gpu::unused_options(kernel.config); !unused.empty())
    fmt::print("// without effect on a GPU so far: {}\n", unused);
  std::fflush(stdout);
  if (command.report && !report) std::cout << "// not assembled: " << gpu::why_no_ptxas() << '\n';
  if (!report) return;
  std::istringstream log(assembled.log);
  for (std::string line; std::getline(log, line);)
    std::cout << "// " << line << '\n';
}

int run_ptx(int argc, char** argv) {
  CLI::App app(ptx_description, "kiln ptx");
  PtxCommand command;
  command.kernels.add_to(app);
  app.add_option("--arch", command.arch, "sm_80, sm_90a or sm_100a (default: sm_80)");
  app.add_flag("--llvm", command.show_llvm, "show the LLVM IR first, as emitted");
  app.add_flag(
      "!--no-report", command.report,
      "do not run ptxas, which also decides between two forms of the PTX if the first one spills registers");
  if (auto code = parse(app, argc, argv)) return *code;
  for (const RequestedKernel& kernel : requested_kernels(command.kernels))
    print(kernel, command);
  return 0;
}

const CommandRegistration ptx_command({"ptx", "prints a kernel as PTX for an NVIDIA GPU", run_ptx});

} // namespace

} // namespace kiln::cli
