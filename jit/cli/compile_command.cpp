// kiln compile: kernels for GPUs that are not here, into the cache folder.
#include <kiln/jit/cli/example.h>
#include <kiln/jit/cli/kernel_file.h>
#include <kiln/jit/cli/parse.h>
#include <kiln/jit/cli/registry.h>
#include <kiln/jit/runtime/cuda/cubin.h>
#include <kiln/jit/runtime/precompile.h>

#include <fmt/format.h>

namespace kiln::cli {

namespace {

constexpr const char* description =
    "Compiles a kernel for NVIDIA GPUs that need not be in this machine, with ptxas, and keeps the code in "
    "the\n"
    "cache folder (KILN_CACHE_DIR), where launches find it: also on a machine without ptxas that the folder "
    "is\n"
    "copied to. KERNEL is the name of a registered kernel (`kiln kernels` lists them) or a file of tile "
    "IR.\n\n"
    "  KILN_CACHE_DIR=$PWD/kernels kiln compile softmax --arch sm_80,sm_90a --config BN=1024,num_warps=8";

struct CompileCommand {
  std::vector<std::string> archs, configs, sizes;
  std::string layouts;
};

void compile(const ir::Kernel& recorded, const RegisteredKernel* registered, const CompileCommand& command,
             const Config& config) {
  Example example = make_example(recorded, registered, command.sizes);
  std::vector<LayoutClass> layouts = parse_layouts(command.layouts);
  if (layouts.empty()) layouts = example.layouts;
  if (layouts.size() != example.layouts.size())
    throw UserError(fmt::format("--layouts {}: {} classes, but kernel {} has {} views; give one for each",
                                command.layouts, layouts.size(), recorded.name, example.layouts.size()));
  for (const std::string& arch : command.archs) {
    Precompiled made = precompile_kernel({recorded, config, layouts, arch, {}});
    fmt::print("{} {{{}}} for {}: {} bytes{}\n", recorded.name, made.config, made.target, made.bytes,
               made.was_there ? ", which were there" : "");
  }
}

int run_compile(int argc, char** argv) {
  CLI::App app(description, "kiln compile");
  std::string what;
  CompileCommand command;
  app.add_option("KERNEL", what, "a registered kernel, or a file of tile IR")->required();
  app.add_option("--arch", command.archs, "architectures: sm_80, sm_90a, sm_100a")
      ->delimiter(',')
      ->required();
  app.add_option("--config", command.configs,
                 "sizes of dimensions and options, BM=64,num_warps=8, over the kernel's own")
      ->allow_extra_args(false);
  app.add_option(
         "--size", command.sizes,
         "a size of the arguments that --layouts is found from: M=1000, or x=512x64 for one parameter")
      ->allow_extra_args(false);
  app.add_option("--layouts", command.layouts,
                 "layout class of each view: any, unit or aligned, as in unit,any (default: what contiguous "
                 "tensors of the sizes have)");
  if (auto code = parse(app, argc, argv)) return *code;
  std::string given;
  for (const std::string& part : command.configs)
    given += (given.empty() ? "" : ",") + part;
  for (const std::string& arch : command.archs)
    cuda::architecture_named(arch); // before anything is compiled
  const RegisteredKernel* registered = find_kernel(what);
  Config config = Config::parse(registered ? registered->config : "");
  for (const Binding& b : Config::parse(given))
    config.set(b.name, b.value);
  if (registered) {
    compile(*registered->record(config), registered, command, config);
  } else {
    for (const auto& kernel : kernels_of_file(what))
      compile(*kernel, nullptr, command, config);
  }
  return 0;
}

const CommandRegistration registration({"compile", "compiles a kernel for NVIDIA GPUs into the cache",
                                        run_compile});

} // namespace

} // namespace kiln::cli
