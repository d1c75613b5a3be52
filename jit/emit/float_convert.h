// Emits conversions between number formats on a scalar or a fixed vector of any width.
//
// F32 and F64 are LLVM's float and double. F16 and BF16 are i16 and the fp8 formats are i8, which hold the
// bits as stored (bitcast them to half where LLVM's own type is needed). Integers are iN.
//
// Results are as dsl/float_bits.h says: any source is rounded once, to nearest even; denormals are kept (but
// see flushes_bf16); fp8 saturates; a NaN stays a NaN, with an unspecified payload. They do not depend on the
// builder's fast-math flags, but FTZ and DAZ must be off in MXCSR. On x86 with SSE4.1 or newer, no library
// call is emitted.
#pragma once

#include <kiln/dsl/dtype.h>

namespace llvm {
class IRBuilderBase;
class TargetMachine;
class Type;
class Value;
} // namespace llvm

namespace kiln::emit {

// The features of the target that conversions may use.
struct ConvertOptions {
  bool has_f16 = false;      // instructions between f32 and f16 (F16C on x86)
  bool has_bf16 = false;     // an instruction from f32 to bf16 that keeps denormals
  bool flushes_bf16 = false; // that of AVX512-BF16 may be used, which makes denormals (of f32 too) zero
  bool saturates = false;    // its instructions from vectors of floats to integers saturate
};

// Whether one instruction, which keeps denormals, narrows f32 to `t`.
inline bool narrows(const ConvertOptions& options, DType t) {
  return (t == DType::F16 && options.has_f16) || (t == DType::BF16 && options.has_bf16);
}

ConvertOptions convert_options(const llvm::TargetMachine& target);

// Any float format to any other. F16, BF16 and fp8 to F32 and F64 are exact.
llvm::Value* emit_float_convert(llvm::IRBuilderBase& builder, const ConvertOptions& options, DType from,
                                DType to, llvm::Value* value);

// A float to I8..U64: truncates toward zero and saturates; NaN becomes 0.
llvm::Value* emit_float_to_integer(llvm::IRBuilderBase& builder, const ConvertOptions& options, DType from,
                                   DType to, llvm::Value* value);

// I8..U64 to a float, rounded once. A Bool is an i1 or i8 of 0 or 1.
llvm::Value* emit_integer_to_float(llvm::IRBuilderBase& builder, const ConvertOptions& options, DType from,
                                   DType to, llvm::Value* value);

} // namespace kiln::emit
