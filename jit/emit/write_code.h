// Runs LLVM's code generator on a module.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/CodeGen.h>

#include <cstdint>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace kiln::emit {

// Whether LLVM may replace addresses in loops by pointers of their own that it increments, or must leave them
// as they were emitted.
enum class StrengthReduction : std::uint8_t { no, yes };

// Writes assembly or an object file. Code generation changes the module, which must not be used afterwards.
// Thread-safe.
llvm::SmallVector<char, 0> write_code(llvm::Module& module, llvm::TargetMachine& machine,
                                      llvm::CodeGenFileType kind, StrengthReduction reduction);

} // namespace kiln::emit
