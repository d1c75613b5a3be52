// The register-tiled inner product: MR x NR of C from MR rows of A and one sliver of B.
#pragma once

#include <kiln/jit/cpu/dot/build.h>
#include <kiln/jit/cpu/dot/plan.h>

namespace kiln::cpu::dot {

// void(ptr a, i64 a_row_stride, ptr b, i64 b_row_stride, ptr c, i64 c_row_stride, i64 m, i64 n, i64 k, i1
// accumulate) with 1 <= m <= MR, 1 <= n <= NR, k >= 1. Strides of a and b count panel elements (pairs for
// pair kinds, as k does), columns of a and b are contiguous. Row p of b must be readable for all NR columns.
// Rows of a beyond m and columns of c beyond n are not touched.
llvm::Function* microkernel(Builder& b, const Plan& plan);

} // namespace kiln::cpu::dot
