// Runs LLVM passes, given by name, on a module.
#pragma once

#include <string>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace kiln::emit {

// `passes` is written as for `opt -passes`. The passes know the target machine: without it, jump threading
// breaks operations of a whole warp.
void run_passes(llvm::Module& module, llvm::TargetMachine& machine, const std::string& passes);

} // namespace kiln::emit
