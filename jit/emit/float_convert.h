// Emits conversions between number formats on a scalar or a fixed vector of any width.
//
// Values travel as: F32 and F64 as LLVM float and double; F16, BF16 as i16 and the fp8 formats as i8, holding
// the stored bits (bitcast to half where LLVM's own type is wanted); integers as iN. All results are as
// dsl/float_bits.h says: one rounding to nearest even whatever the source, denormals kept (but for
// flushes_bf16), fp8 saturating; a NaN stays a NaN (its payload is not specified). They do not depend on the
// builder's fast-math flags, only on MXCSR having FTZ and DAZ off. No library call is emitted on x86 with
// SSE4.1 or better.
#pragma once

#include <kiln/dsl/dtype.h>

namespace llvm {
class IRBuilderBase;
class TargetMachine;
class Type;
class Value;
} // namespace llvm

namespace kiln::emit {

// What the code may use of the target.
struct ConvertOptions {
  bool has_f16 = false;      // instructions between f32 and f16 (F16C on x86)
  bool has_bf16 = false;     // an instruction from f32 to bf16 that keeps denormals
  bool flushes_bf16 = false; // AVX512-BF16's, for a value whose denormals, of f32 too, may become zero
  bool saturates = false;    // instructions from vectors of floats to integers saturate
};

// Whether such an instruction narrows f32 to `t`.
inline bool narrows(const ConvertOptions& options, DType t) {
  return (t == DType::F16 && options.has_f16) || (t == DType::BF16 && options.has_bf16);
}

ConvertOptions convert_options(const llvm::TargetMachine& target);

// Any float format to any other. F16, BF16 and fp8 to F32 and F64 are exact.
llvm::Value* emit_float_convert(llvm::IRBuilderBase& builder, const ConvertOptions& options, DType from,
                                DType to, llvm::Value* value);

// A float to I8..U64: truncates toward zero, saturates, NaN gives 0.
llvm::Value* emit_float_to_integer(llvm::IRBuilderBase& builder, const ConvertOptions& options, DType from,
                                   DType to, llvm::Value* value);

// I8..U64 to a float, rounded once; Bool is taken as an i1 or i8 of 0 or 1.
llvm::Value* emit_integer_to_float(llvm::IRBuilderBase& builder, const ConvertOptions& options, DType from,
                                   DType to, llvm::Value* value);

} // namespace kiln::emit
