// LLVM's code generator.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/Support/CodeGen.h>

#include <cstdint>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace kiln::emit {

// Whether addresses in loops become pointers of their own that are moved on, or stay as they were emitted.
enum class StrengthReduction : std::uint8_t { no, yes };

// Assembly or an object file. Code generation changes the module: it is of no use afterwards. Thread-safe.
llvm::SmallVector<char, 0> write_code(llvm::Module& module, llvm::TargetMachine& machine,
                                      llvm::CodeGenFileType kind, StrengthReduction reduction);

} // namespace kiln::emit
