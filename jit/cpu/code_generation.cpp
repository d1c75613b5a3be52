// Runs LLVM's passes over modules.
#include <kiln/jit/cpu/code_generation.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/emit/run_passes.h>

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

namespace kiln::cpu {

namespace {

constexpr const char* pass_list =
    "function(sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>,loop-mssa(licm),early-cse,dse)";

} // namespace

std::string text_of(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  emit::run_passes(module, machine, pass_list);
}

llvm::SmallVector<char, 0> generate(llvm::Module& module, llvm::TargetMachine& machine,
                                    llvm::CodeGenFileType kind) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, kind, /*DisableVerify=*/true))
    internal_error("LLVM cannot write this kind of file");
  passes.run(module);
  return bytes;
}

} // namespace kiln::cpu
