// LLVM's passes by name over a module.
#pragma once

#include <string>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace kiln::emit {

// `passes` as `opt -passes` writes them. They know the target: without it, jump threading breaks warp-wide
// operations.
void run_passes(llvm::Module& module, llvm::TargetMachine& machine, const std::string& passes);

} // namespace kiln::emit
