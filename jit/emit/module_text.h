// Prints and verifies LLVM modules.
#pragma once

#include <string>

namespace llvm {
class Module;
} // namespace llvm

namespace kiln::emit {

std::string text_of(const llvm::Module& module);

// Throws an InternalError with the text of the module if it is not valid LLVM IR.
void verify(const llvm::Module& module);

} // namespace kiln::emit
