// Declares the check that the CPU can lower all operations of a kernel.
#pragma once

#include <kiln/dsl/ir/ir.h>

namespace kiln::cpu {

// Throws UserError for the first operation that the CPU does not lower, with its source line and the dtypes
// that are supported. Must be called before a kernel is compiled.
void check_legal(const ir::Kernel& lowered);

} // namespace kiln::cpu
