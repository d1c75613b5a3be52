// kiln-cross: prints the assembly of kernels for CPUs of another architecture, for FileCheck.
//
//   kiln-cross kernel.kir --triple aarch64-linux-gnu --cpu neoverse-v1 --config M=64,N=64
//     --layouts unit,unit,unit
//
// It is a program of the tests only, because LLVM's other code generators would double the size of Kiln's
// library.
#include <kiln/dsl/error.h>
#include <kiln/dsl/ir/parser.h>
#include <kiln/dsl/ir/verifier.h>
#include <kiln/jit/cli/support/example.h>
#include <kiln/jit/cli/support/read_input.h>
#include <kiln/jit/cpu/compiler.h>
#include <kiln/jit/passes/passes.h>

#include <CLI/CLI.hpp>
#include <llvm/Support/TargetSelect.h>

#include <cstdio>

using namespace kiln;

int main(int argc, char** argv) {
  CLI::App app("Prints the assembly of kernels for CPUs of another architecture.", "kiln-cross");
  std::string file, triple, cpu, config, layouts;
  bool show_llvm = false;
  app.add_option("FILE", file, "a file of tile IR")->required();
  app.add_option("--triple", triple, "of the machine, as in aarch64-linux-gnu")->required();
  app.add_option("--cpu", cpu, "by LLVM's name")->required();
  app.add_option("--config", config, "sizes of dimensions");
  app.add_option("--layouts", layouts, "layout class of each view");
  app.add_flag("--llvm", show_llvm, "print optimised LLVM IR instead");
  CLI11_PARSE(app, argc, argv);
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
  try {
    const cpu::Target target = cpu::named_target(cpu, triple);
    for (const auto& kernel : ir::parse_all(cli::read_input(file, "name a file with tile IR"), file)) {
      ir::verify(*kernel, ir::Blame::Author);
      auto lowered = passes::lower_generic(*kernel, {Config::parse(config), cli::parse_layouts(layouts)});
      cpu::CompileOptions options;
      options.keep_assembly = options.keep_llvm = true;
      const cpu::CompiledObject object = cpu::compile(*lowered, target, options);
      std::fputs((show_llvm ? object.llvm_after : object.assembly).c_str(), stdout);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kiln-cross: %s\n", error.what());
    return 1;
  }
}
