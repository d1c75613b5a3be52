// Which operations the CPU lowers for which dtypes, asked before LLVM sees a kernel.
#pragma once

#include <kiln/dsl/ir/ir.h>

namespace kiln::cpu {

// UserError at the first operation that the CPU does not lower, with its line and the dtypes it would take.
void check_legal(const ir::Kernel& lowered);

} // namespace kiln::cpu
