// Which operations are lowered for which dtypes: the same on the CPU and on GPUs, where what has no
// instruction of its own is computed in f32, or exchanged by compare-and-swap. Asked before LLVM sees a
// kernel.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <string>

namespace kiln::emit {

// The dtypes of an operation's elements (of a dot: its factors; of what loads, stores or exchanges: the
// elements in memory) that are lowered, a bit for each.
unsigned lowered_dtypes(ir::Opcode code);

// UserError with the operation's line and the dtypes it would take, if it is of another one. `target` is the
// subject of the sentence: "the CPU".
void check_dtype(const ir::Op& op, const std::string& target);

} // namespace kiln::emit
