// Implements `kiln compile`: compiles kernels for GPUs that need not be present, into the cache folder.
#include <kiln/jit/cli/support/kernel_options.h>
#include <kiln/jit/cli/support/parse.h>
#include <kiln/jit/cli/support/registry.h>
#include <kiln/jit/runtime/cuda/cubin.h>
#include <kiln/jit/runtime/kernel/precompile.h>

#include <fmt/format.h>

namespace kiln::cli {

namespace {

constexpr const char* compile_description =
    "Compiles a kernel with ptxas for NVIDIA GPUs, which need not be present, and stores the code in the\n"
    "cache folder (KILN_CACHE_DIR), where launches find it. The folder can be copied to a machine without\n"
    "ptxas. KERNEL is the name of a registered kernel (`kiln kernels` lists them) or a file of tile IR.\n\n"
    "  KILN_CACHE_DIR=$PWD/kernels kiln compile softmax --arch sm_80,sm_90a --config BN=1024,num_warps=8";

void compile(const RequestedKernel& kernel, const KernelOptions& options,
             const std::vector<std::string>& archs) {
  const Example example = make_example(*kernel.recorded, kernel.registered, options.sizes);
  const std::vector<LayoutClass> layouts = layouts_of(options, *kernel.recorded, example);
  for (const std::string& arch : archs) {
    Precompiled made = precompile_kernel({*kernel.recorded, kernel.config, layouts, arch, {}});
    fmt::print("{} {{{}}} for {}: {} bytes{}\n", kernel.recorded->name, made.config, made.target, made.bytes,
               made.was_there ? ", which the cache had" : "");
  }
}

int run_compile(int argc, char** argv) {
  CLI::App app(compile_description, "kiln compile");
  KernelOptions options;
  std::vector<std::string> archs;
  options.add_to(app);
  app.add_option("--arch", archs, "architectures: sm_80, sm_90a, sm_100a")->delimiter(',')->required();
  if (auto code = parse(app, argc, argv)) return *code;
  for (const std::string& arch : archs)
    cuda::architecture_named(arch); // UserError before anything is compiled
  for (const RequestedKernel& kernel : requested_kernels(options))
    compile(kernel, options, archs);
  return 0;
}

const CommandRegistration compile_command({"compile", "compiles a kernel for NVIDIA GPUs into the cache",
                                           run_compile});

} // namespace

} // namespace kiln::cli
