// Emits the combine regions of reductions and scans, and recognises those that are one operation.
#pragma once

#include <kiln/jit/emit/elementwise.h>

#include <functional>
#include <optional>

namespace kiln::emit {

// The operation, if the combine region is one commutative operation on its two arguments.
std::optional<ir::Opcode> simple_combine(const ir::Op& reduction);
// The identity element of an operation: x combined with it is x.
llvm::Constant* identity(llvm::LLVMContext& context, ir::Opcode code, DType t);
// Whether narrow floats are combined in f32 and rounded only at the end.
bool keeps_wide(const ir::Op& reduction);

// Emits a combine region for vectors or scalars. `keep_wide` skips the rounding of narrow floats. `outer`
// returns the values that are defined outside of the region.
Values emit_combine(IRBuilder& b, const NumberOptions& numbers, const ir::Region& region,
                    const Values& arguments, bool keep_wide,
                    const std::function<llvm::Value*(const ir::Value*)>& outer);

} // namespace kiln::emit
