// The part of the CPU's compiler that is LLVM's: cheap passes over a module, then its code.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/CodeGen.h>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace kiln::cpu {

// A short list of cheap passes: the emitter writes code in its final form, so the O3 pipeline would only
// double the time (it unrolls the loops around the edges).
void optimize(llvm::Module& module, llvm::TargetMachine& machine);

// Assembly or an object file. Code generation changes the module: it is of no use afterwards.
llvm::SmallVector<char, 0> generate(llvm::Module& module, llvm::TargetMachine& machine,
                                    llvm::CodeGenFileType kind);

} // namespace kiln::cpu
