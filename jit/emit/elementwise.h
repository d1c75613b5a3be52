// One elementwise operation of tile IR on LLVM values: scalars or vectors of lanes.
//
// A value of dtype f16, bf16 or an 8-bit float is held as a float whose value the dtype can represent; each
// operation rounds its result, as SEMANTICS says. Bool is i1, integers are iN, pointers are ptr.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/emit/float_convert.h>
#include <kiln/jit/emit/lanes.h>
#include <kiln/jit/emit/vector_math.h>

namespace kiln::emit {

// What arithmetic may use of the target.
struct NumberOptions {
  MathOptions math;
  ConvertOptions convert;
};

// How a dtype is held in registers and in memory.
llvm::Type* compute_type(llvm::LLVMContext& context, DType t);
llvm::Type* memory_type(llvm::LLVMContext& context, DType t); // bool: i8; f16, bf16: i16; fp8: i8
inline bool is_narrow_float(DType t) { return is_float(t) && size_of(t) < 4; }

// Between both forms; lanes as given.
llvm::Value* to_memory(IRBuilder& b, const NumberOptions& options, llvm::Value* v, DType t);
llvm::Value* from_memory(IRBuilder& b, const NumberOptions& options, llvm::Value* bits, DType t);
// Rounds a float to what `t` can represent; itself for f32 and f64.
llvm::Value* round_to(IRBuilder& b, const NumberOptions& options, llvm::Value* v, DType t);

llvm::Value* emit_constant(llvm::LLVMContext& context, const ir::Op& constant);
llvm::Value* emit_cast(IRBuilder& b, const NumberOptions& options, llvm::Value* v, DType from, DType to);

// `op` must be elementwise (ir::is_elementwise); operands have equal lanes.
llvm::Value* emit_elementwise(IRBuilder& b, const NumberOptions& options, const ir::Op& op,
                              const Values& operands);

} // namespace kiln::emit
