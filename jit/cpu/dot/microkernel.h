// The register-tiled inner product: MR x NR of C from MR rows of A and one sliver of B.
#pragma once

#include <kiln/jit/cpu/dot/build.h>
#include <kiln/jit/cpu/dot/plan.h>

namespace kiln::cpu::dot {

// void(ptr a, i64 a_row_stride, ptr b, i64 b_row_stride, ptr c, i64 c_row_stride, i64 m, i64 n, i64 k, i1
// accumulate, ptr corrections, ptr packed) with 1 <= m <= MR, 1 <= n <= NR, k >= 1. k counts groups where the
// panel has such, and so does the stride of b; a's row stride counts elements. Columns of a and b are
// contiguous. Row p of b must be readable for all NR columns. Rows of a beyond m and columns of c beyond n
// are not touched. Where the plan shifts A, `corrections` are what the routine below makes. One that packs
// reads b as it is in memory, whole groups of its rows and all NR columns, b_row_stride counting its
// elements, and stores it to `packed` as [k][NR]; others ignore that.
llvm::Function* microkernel(Builder& b, const Plan& plan, bool packs = false);

// x * y + sum in one rounding where the target has such an instruction, on vectors of accumulator elements.
llvm::Value* fused_multiply_add(Builder& b, const Plan& plan, llvm::Value* x, llvm::Value* y,
                                llvm::Value* sum);
llvm::Type* accumulator_type(Builder& b, const Plan& plan);

// void(ptr corrections, ptr panel, i64 k) for a plan that shifts A: i32 [NR + lanes], what the sums of a
// packed sliver of k groups begin with (-128 or +128 times the sums of its columns), and a vector of 0x80 in
// every byte.
llvm::Function* corrections_routine(Builder& b, const Plan& plan);

} // namespace kiln::cpu::dot
