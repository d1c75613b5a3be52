// Emits elementwise math functions as inlined LLVM IR: polynomials on whole vectors, never a call to libm.
//
//   MathOptions options = math_options(target_machine);
//   llvm::Value* y = emit_math(builder, options, MathFn::Exp, x);
//
// x is a float, a double, or a fixed vector of them of any width. For f16 and bf16, callers convert to f32
// first (float_convert.h).
//
// This holds for every function: infinities, NaN, signed zeros and denormals are treated as C99 Annex F says,
// in arguments and results. The result does not depend on the builder's fast-math flags. Denormals are exact
// only if FTZ and DAZ are off in the MXCSR of the thread, which is the default. For huge arguments, sin, cos
// and tan branch once per vector to a slow exact reduction, so the builder's block may be split: after the
// call, the builder points at the end of the continuation. On x86 the target needs SSE4.1 (without it, floor
// and similar functions become library calls).
//
// Accuracy: errors are at most 2 ulp for f32 and 4 ulp for f64, but 8 ulp for gelu. The largest errors of
// gelu that were seen are 4.0 ulp for f32 with its table, 6.2 without, and 6.5 for f64. This table has the
// largest errors seen of other functions, in ulp. For f32 they are from at least 2^28 evenly spaced bit
// patterns with FMA ("[exhaustive]" in the tests), except those of pow, atan2 and f64, from random sweeps.
//
//          exp   exp2  expm1 log   log2  log1p sin   cos   tan
//     f32  1.60  1.23  1.37  0.89  0.98  1.09  1.55  1.54  0.50
//     f64  1.13  1.11  1.41  0.75  1.48  0.76  1.39  1.37  2.80
//
//          tanh  erf   sigm. pow   rsqrt asin  acos  atan  atan2
//     f32  1.37  1.64  1.92  0.51  1.49  1.27  1.10  1.41  1.46
//     f64  2.09  2.48  1.70  1.16  1.50  1.20  1.08  1.40  1.73
//
// sqrt is correctly rounded; floor, ceil, trunc and round are exact. Each file in math/ states its method and
// source.
//
// Thread safety: these functions touch only the module behind the builder.
#pragma once

#include <cstdint>

namespace llvm {
class IRBuilderBase;
class TargetMachine;
class Value;
} // namespace llvm

namespace kiln::emit {

enum class MathFn : std::uint8_t {
  Exp,
  Exp2,
  Expm1,
  Log,
  Log2,
  Log1p,
  Sin,
  Cos,
  Tan,
  Tanh,
  Erf,
  Gelu,
  Sigmoid,
  Pow,
  Sqrt,
  Rsqrt,
  Floor,
  Ceil,
  Trunc,
  Round, // Round: to nearest, ties to even
  Asin,
  Acos,
  Atan,
  Atan2, // Atan2(y, x)
};
inline constexpr int math_fn_count = static_cast<int>(MathFn::Atan2) + 1;

// Functions of one operand for which a target has instructions, which must obey the bounds above.
class HardwareMath {
public:
  virtual ~HardwareMath() = default;
  // Null if there is no instruction for `fn`.
  virtual llvm::Value* emit(llvm::IRBuilderBase& b, MathFn fn, llvm::Value* x) const = 0;
};

// The features of the target that math functions may use. Without has_fma they obey the same bounds, but are
// slower.
struct MathOptions {
  bool has_fma = true;
  bool avx512 = false;  // AVX-512 F and DQ intrinsics, for vectors that fill 512-bit registers
  bool max_nan = false; // llvm.maximum and llvm.minimum of f32 are one instruction
  const HardwareMath* hardware = nullptr;
  bool inline_reduction = false; // the exact reduction of huge angles is inlined, not called
  bool near_angles = false;      // sin, cos and tan get angles below near_angle only
};

// Angles of at least this magnitude, and NaN, may take the exact reduction.
inline constexpr double near_angle = 0x1p16;

MathOptions math_options(const llvm::TargetMachine& target);

// The number of operands of `fn`: 2 for Pow and Atan2, else 1.
int operand_count(MathFn fn);

llvm::Value* emit_math(llvm::IRBuilderBase& builder, const MathOptions& options, MathFn fn, llvm::Value* x,
                       llvm::Value* y = nullptr);

} // namespace kiln::emit
