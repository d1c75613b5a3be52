// Says which operations can be lowered for which dtypes, which is checked before LLVM sees a kernel.
// CPUs and GPUs are alike: dtypes without instructions of their own are computed in f32, and exchanged by
// compare-and-swap.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <string>

namespace kiln::emit {

// The dtypes for which an operation can be lowered, one bit for each. They are those of its elements; for a
// dot, of its factors; for loads, stores and atomics, of the elements in memory.
unsigned lowered_dtypes(ir::Opcode code);

// Throws a UserError if an operation has another dtype, with its line and the dtypes that it would take.
// `target` is the subject of the message, such as "the CPU".
void check_dtype(const ir::Op& op, const std::string& target);

} // namespace kiln::emit
