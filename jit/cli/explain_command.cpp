// Implements `kiln explain`: shows how a kernel is compiled, and its predicted cost.
#include <kiln/jit/cli/support/explain.h>

#include <kiln/jit/base/options.h>
#include <kiln/jit/cli/support/parse.h>
#include <kiln/jit/cli/support/registry.h>

#include <fmt/format.h>

namespace kiln::cli {

namespace {

constexpr const char* explain_description =
    "Shows the stages of compiling a kernel, from tile IR to machine code, and its predicted cost.\n"
    "KERNEL is the name of a registered kernel (`kiln kernels` lists them) or a file of tile IR, such as\n"
    "KILN_KEEP=tile writes; - reads the standard input.\n\n"
    "  kiln explain matmul --size M=1000 --config BM=32 --asm\n"
    "  kiln explain scale.kir --config BM=1024 --size x=1000000 --bandwidth 20";

int run_explain(int argc, char** argv) {
  CLI::App app(explain_description, "kiln explain");
  KernelOptions kernels;
  ExplainOptions options;
  Sections sections;
  bool json = false;
  kernels.add_to(app);
  app.add_option("--grid", options.grid,
                 "programs along each axis, as in 16x4, for a kernel that does not define its grid");
  app.add_option("--cpu", options.cpu, "compile for this CPU, by LLVM's name (default: this machine's)");
  app.add_flag("--debug", options.debug, "include the checks that KILN_DEBUG=1 adds");
  app.add_option("--bandwidth", options.bandwidth, "memory bandwidth in GB/s, for a lower bound of the time")
      ->check(from_to(1e-3, 1e9));
  app.add_option("--peak", options.peak, "arithmetic peak in GFLOP/s, for a lower bound of the time")
      ->check(from_to(1e-3, 1e9));
  app.add_flag("--passes", sections.passes, "show tile IR and what each pass changed");
  app.add_flag("--llvm", sections.llvm, "show LLVM IR as emitted and as optimised");
  app.add_flag("--asm", sections.assembly, "show assembly with the source lines");
  app.add_flag("--pictures", sections.pictures,
               "show how the threads of a GPU hold the tiles (num_warps in the config: warps of a block)");
  app.add_option("--arch", options.arch,
                 "architecture for --pictures: sm_80, sm_90a or sm_100a (default: sm_80)");
  app.add_option("--source", sections.source_folder,
                 "folder of the sources for --asm (default: the current one)");
  app.add_flag("--all", sections.all, "show all of these, with whole tile IR after each pass");
  app.add_flag("--json", json, "print everything as JSON, one object per kernel");
  if (auto code = parse(app, argc, argv)) return *code;
  options.debug |= kiln::options().debug;
  if (!sections.llvm && !sections.assembly && !sections.pictures) sections.passes = true;
  options.on_gpu = sections.pictures || sections.all || json;
  bool first = true;
  for (const RequestedKernel& kernel : requested_kernels(kernels)) {
    const Explanation explanation = explain(kernel, kernels, options);
    if (sections.pictures && explanation.gpu_refusal) throw *explanation.gpu_refusal;
    fmt::print("{}{}", first || json ? "" : "\n",
               json ? to_json(explanation) : to_text(explanation, sections));
    first = false;
  }
  return 0;
}

const CommandRegistration explain_command({"explain", "shows how a kernel is compiled and what it costs",
                                           run_explain});

} // namespace
} // namespace kiln::cli
