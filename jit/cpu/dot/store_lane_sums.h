// Stores the results of inner products, whose sums are spread over the lanes of vectors.
#pragma once

#include <kiln/jit/cpu/dot/build.h>
#include <kiln/jit/cpu/dot/plan.h>

namespace kiln::cpu::dot {

// C, its row stride in elements, and its extents; `accumulate` is that of DotOperands.
struct Results {
  llvm::Value *c, *row_stride, *m, *n, *accumulate;
};

// Adds up the lanes of each vector, and stores the totals, or adds them to C: `columns` vectors for each row,
// from row i and column j on. Those that are not inside C are left out.
void store_lane_sums(Builder& b, const Plan& plan, const Results& results, llvm::Value* i, llvm::Value* j,
                     int columns, llvm::ArrayRef<llvm::Value*> sums);

} // namespace kiln::cpu::dot
