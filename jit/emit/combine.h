// The combine regions of reductions and scans: which are plain operations, and their evaluation.
#pragma once

#include <kiln/jit/emit/elementwise.h>

#include <functional>
#include <optional>

namespace kiln::emit {

// The operation of a combine region that is one commutative operation on its two arguments.
std::optional<ir::Opcode> simple_combine(const ir::Op& reduction);
// x combined with it is x.
llvm::Constant* identity(llvm::LLVMContext& context, ir::Opcode code, DType t);
// Whether the combine runs in f32 for a narrow float and rounds at the end only.
bool keeps_wide(const ir::Op& reduction);

// Runs a combine region on vectors or scalars. `keep_wide` skips the rounding of narrow floats. Values from
// outside of the region are asked of `outer`.
Values emit_combine(IRBuilder& b, const NumberOptions& numbers, const ir::Region& region,
                    const Values& arguments, bool keep_wide,
                    const std::function<llvm::Value*(const ir::Value*)>& outer);

} // namespace kiln::emit
