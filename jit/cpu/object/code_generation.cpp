// Lists the passes that are run over modules, and sets the options of code generation.
#include <kiln/jit/cpu/object/code_generation.h>
#include <kiln/jit/cpu/tuning.h>

#include <kiln/jit/emit/run_passes.h>
#include <kiln/jit/emit/write_code.h>

#include <llvm/Target/TargetMachine.h>

namespace kiln::cpu {

namespace {

constexpr const char* pass_list =
    "function(sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>,loop-mssa(licm),early-cse,dse)";

} // namespace

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  emit::run_passes(module, machine, pass_list);
}

// On x86 without strength reduction of loops (tuning.h): addresses there add a base and a scaled index at no
// cost. AArch64 advances pointers in its loads and stores.
llvm::SmallVector<char, 0> generate(llvm::Module& module, llvm::TargetMachine& machine,
                                    llvm::CodeGenFileType kind) {
  const bool x86 = machine.getTargetTriple().isX86();
  return emit::write_code(module, machine, kind,
                          x86 && !tuning::x86_strength_reduction ? emit::StrengthReduction::no
                                                                 : emit::StrengthReduction::yes);
}

} // namespace kiln::cpu
