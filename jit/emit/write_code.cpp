// Writes assembly or object code, with or without LLVM's loop strength reduction.
#include <kiln/jit/emit/write_code.h>

#include <kiln/dsl/error.h>

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <mutex>

namespace kiln::emit {

namespace {

// LLVM has no option of a target machine for this, only a flag of the process, which it reads while the list
// of passes is made.
llvm::cl::opt<bool>& without_strength_reduction() {
  static auto* flag = [] {
    llvm::cl::Option* option = llvm::cl::getRegisteredOptions().lookup("disable-lsr");
    internal_check(option != nullptr, "LLVM has no flag disable-lsr");
    return static_cast<llvm::cl::opt<bool>*>(option);
  }();
  return *flag;
}

} // namespace

llvm::SmallVector<char, 0> write_code(llvm::Module& module, llvm::TargetMachine& machine,
                                      llvm::CodeGenFileType kind, StrengthReduction reduction) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  {
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    without_strength_reduction() = reduction == StrengthReduction::no;
    if (machine.addPassesToEmitFile(passes, stream, nullptr, kind, /*DisableVerify=*/true))
      internal_error("LLVM cannot write this kind of file");
  }
  passes.run(module);
  return bytes;
}

} // namespace kiln::emit
