// Tells debuggers and profilers which line of the user's code an instruction comes from.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/emit/lanes.h>

#include <llvm/IR/DIBuilder.h>

namespace kiln::emit {

class LineInfo {
public:
  // `kind`: all that debuggers want, or lines alone. From here on `b` puts the kernel's first line on what it
  // makes.
  LineInfo(llvm::Module& module, const ir::Kernel& kernel, llvm::Function& function, IRBuilder& b,
           llvm::DICompileUnit::DebugEmissionKind kind);
  void locate(IRBuilder& b, const ir::Op& op); // what follows comes from its line, if it has one
  void finish() { builder_.finalize(); }

private:
  llvm::DIBuilder builder_;
  llvm::DISubprogram* subprogram_ = nullptr;
};

} // namespace kiln::emit
