// A module of LLVM's as text, and whether it is valid.
#pragma once

#include <string>

namespace llvm {
class Module;
} // namespace llvm

namespace kiln::emit {

std::string text_of(const llvm::Module& module);

// InternalError with its text if that is no valid LLVM IR.
void verify(const llvm::Module& module);

} // namespace kiln::emit
