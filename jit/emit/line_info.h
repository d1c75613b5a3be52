// Records for debuggers and profilers which line of the user's code an instruction comes from.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/emit/lanes.h>

#include <llvm/IR/DIBuilder.h>

namespace kiln::emit {

class LineInfo {
public:
  // `kind` chooses between all that debuggers need and lines alone. Instructions that `b` creates from now on
  // have the first line of the kernel.
  LineInfo(llvm::Module& module, const ir::Kernel& kernel, llvm::Function& function, IRBuilder& b,
           llvm::DICompileUnit::DebugEmissionKind kind);
  // Instructions that `b` creates from now on have the line of `op`, if it has one.
  void locate(IRBuilder& b, const ir::Op& op);
  void finish() { builder_.finalize(); }

private:
  llvm::DIBuilder builder_;
  llvm::DISubprogram* subprogram_ = nullptr;
};

} // namespace kiln::emit
