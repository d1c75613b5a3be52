// Declares the steps of compilation that LLVM executes: cheap passes over a module, and code generation.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/CodeGen.h>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace kiln::cpu {

// Runs a short list of cheap passes. The emitter writes code in its final form, so that the O3 pipeline would
// only double the compile time (it unrolls the loops at the edges).
void optimize(llvm::Module& module, llvm::TargetMachine& machine);

// Generates assembly or an object file. This changes the module, which must not be used afterwards.
llvm::SmallVector<char, 0> generate(llvm::Module& module, llvm::TargetMachine& machine,
                                    llvm::CodeGenFileType kind);

} // namespace kiln::cpu
