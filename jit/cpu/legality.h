// Which operations the CPU lowers for which dtypes, asked before LLVM sees a kernel.
#pragma once

#include <kiln/dsl/ir/ir.h>

namespace kiln::cpu {

// The dtypes of an operation's elements (of a dot: its factors; of what loads, stores or exchanges: the
// elements in memory) that the CPU lowers, a bit for each.
unsigned lowered_dtypes(ir::Opcode code);

// UserError at the first operation that the CPU does not lower, with its line and the dtypes it would take.
void check_legal(const ir::Kernel& lowered);

} // namespace kiln::cpu
