// Splits a number into exponent and significand, the first step of every logarithm.
#pragma once

#include <kiln/jit/emit/math/math_builder.h>

namespace kiln::emit {

// x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); f is exact.
struct LogReduction {
  llvm::Value* e;
  llvm::Value* f;
};

LogReduction split_normal(const MathBuilder& m, llvm::Value* x);   // for a positive normal x
LogReduction split_positive(const MathBuilder& m, llvm::Value* x); // for a positive x, denormals included

} // namespace kiln::emit
