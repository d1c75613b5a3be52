// Prints an LLVM module as text, and reports what LLVM's verifier finds in it.
#include <kiln/jit/emit/module_text.h>

#include <kiln/dsl/error.h>

#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

namespace kiln::emit {

std::string text_of(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

void verify(const llvm::Module& module) {
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  if (llvm::verifyModule(module, &stream))
    internal_error(module.getName().str() + " was lowered to invalid LLVM IR: " + problems + "\n" +
                   text_of(module));
}

} // namespace kiln::emit
