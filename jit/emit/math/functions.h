// Declares the emitters of math functions, among which vector_math.cpp chooses. Each emits at the builder's
// insertion point, and requires that the fast-math flags are clear.
#pragma once

#include <kiln/jit/emit/math/math_builder.h>

namespace kiln::emit {

// exponential.cpp
llvm::Value* emit_exp(const MathBuilder& m, llvm::Value* x);
llvm::Value* emit_exp2(const MathBuilder& m, llvm::Value* x);
llvm::Value* emit_expm1(const MathBuilder& m, llvm::Value* x);
llvm::Value* emit_sigmoid(const MathBuilder& m, llvm::Value* x);
llvm::Value* emit_tanh(const MathBuilder& m, llvm::Value* x);
// e^(-x^2 / 2) for |x| of at most 100, or for NaN.
llvm::Value* emit_gaussian(const MathBuilder& m, llvm::Value* x);

// logarithm.cpp
llvm::Value* emit_log(const MathBuilder& m, llvm::Value* x);
llvm::Value* emit_log2(const MathBuilder& m, llvm::Value* x);
llvm::Value* emit_log1p(const MathBuilder& m, llvm::Value* x);

// error_function.cpp
llvm::Value* emit_erf(const MathBuilder& m, llvm::Value* x);

// gelu.cpp
llvm::Value* emit_gelu(const MathBuilder& m, llvm::Value* x);

// trigonometric.cpp
llvm::Value* emit_sin(const MathBuilder& m, llvm::Value* x);
llvm::Value* emit_cos(const MathBuilder& m, llvm::Value* x);
llvm::Value* emit_tan(const MathBuilder& m, llvm::Value* x);

// trig_reduction.cpp: x - quadrant * pi/2 for a finite |x| of at least 1/2, and NaN for an infinity or NaN.
// It is one function for each module and type. `remainder` is f64, and `quadrant` is an int_type of which
// only the low two bits count.
struct Reduced {
  llvm::Value* remainder;
  llvm::Value* quadrant;
};
Reduced exact_reduction(const MathBuilder& m, llvm::Value* magnitude);

// remainder.cpp: fmod, exact to the last bit, as a function of the module.
llvm::Value* emit_exact_remainder(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y);

// power.cpp
llvm::Value* emit_pow(const MathBuilder& m, llvm::Value* x, llvm::Value* y);

// inverse_trigonometric.cpp
llvm::Value* emit_asin(const MathBuilder& m, llvm::Value* x);
llvm::Value* emit_acos(const MathBuilder& m, llvm::Value* x);
llvm::Value* emit_atan(const MathBuilder& m, llvm::Value* x);
llvm::Value* emit_atan2(const MathBuilder& m, llvm::Value* y, llvm::Value* x);

} // namespace kiln::emit
