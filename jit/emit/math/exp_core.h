// Emits the two steps of e^x that other functions reuse without its range checks.
#pragma once

#include <kiln/jit/emit/math/math_builder.h>

namespace kiln::emit {

// x = n ln 2 + r with |r| at most ln2 / 2; `high` and `ln2_low` let a caller recover the rounding error of r.
struct ExpReduction {
  llvm::Value *n, *power; // power is 2^n if that is a normal number
  llvm::Value* r;
  llvm::Value* high;
  double ln2_low;
};

ExpReduction reduce_by_ln2(const MathBuilder& m, llvm::Value* x);
llvm::Value* exp_of_remainder(const MathBuilder& m, llvm::Value* r);

} // namespace kiln::emit
