// Emits one elementwise operation of tile IR on LLVM values, which are scalars or vectors of lanes.
//
// A value of f16, bf16 or an 8-bit float is held as a float whose value the dtype can represent, and each
// operation rounds its result, as SEMANTICS says. A bool is an i1, an integer an iN, and a pointer a ptr.
#pragma once

#include <kiln/dsl/ir/ir.h>
#include <kiln/jit/emit/float_convert.h>
#include <kiln/jit/emit/lanes.h>
#include <kiln/jit/emit/vector_math.h>

namespace kiln::emit {

// The features of the target that arithmetic may use.
struct NumberOptions {
  MathOptions math;
  ConvertOptions convert;
  unsigned pointer_space = 0; // the address space of the kernel's pointers
};

// The types of a dtype in registers and in memory.
llvm::Type* compute_type(llvm::LLVMContext& context, DType t);
llvm::Type* memory_type(llvm::LLVMContext& context, DType t); // bool: i8; f16, bf16: i16; fp8: i8
inline bool is_narrow_float(DType t) { return is_float(t) && size_of(t) < 4; }

// Convert between both forms. The result has as many lanes as the operand.
llvm::Value* to_memory(IRBuilder& b, const NumberOptions& options, llvm::Value* v, DType t);
llvm::Value* from_memory(IRBuilder& b, const NumberOptions& options, llvm::Value* bits, DType t);
// Rounds a float to a value that `t` can represent. For f32 and f64 this is the float itself.
llvm::Value* round_to(IRBuilder& b, const NumberOptions& options, llvm::Value* v, DType t);

llvm::Value* emit_constant(llvm::LLVMContext& context, const ir::Op& constant);
llvm::Value* emit_cast(IRBuilder& b, const NumberOptions& options, llvm::Value* v, DType from, DType to);

// `op` must be elementwise (ir::is_elementwise), and all operands must have as many lanes.
llvm::Value* emit_elementwise(IRBuilder& b, const NumberOptions& options, const ir::Op& op,
                              const Values& operands);

} // namespace kiln::emit
