// Declares the microkernel: MR x NR elements of C, in registers, from MR rows of A and a sliver of B.
#pragma once

#include <kiln/jit/cpu/dot/build.h>
#include <kiln/jit/cpu/dot/plan.h>

namespace kiln::cpu::dot {

// void(ptr a, i64 a_row_stride, ptr b, i64 b_row_stride, ptr c, i64 c_row_stride, i64 m, i64 n, i64 k,
//      i1 accumulate, ptr corrections, ptr packed, i64 to_next_b)
//
// 1 <= m <= MR, 1 <= n <= NR, k >= 1. If the panel has groups, k and the row stride of b count groups; the
// row stride of a counts elements. Columns of a and b are contiguous. Row p of b must be readable for all NR
// columns. Rows of a beyond m and columns of c beyond n are not accessed. With `accumulate`, sums are added to
// C, or begin with it if the plan says so. If the plan shifts A, `corrections` is what corrections_routine
// wrote. With `packs`, the routine reads b as it is in memory, whole groups of
// its rows and all NR columns, with b_row_stride counting elements, and stores it to `packed` as [k][NR];
// without, `packed` is ignored. to_next_b is that of DotOperands, and ignored if the shape does not prefetch
// or `b` is packed.
llvm::Function* microkernel(Builder& b, const Plan& plan, bool packs = false);

// Computes x * y + sum of vectors of accumulator elements, with one rounding if the target has such an
// instruction.
llvm::Value* fused_multiply_add(Builder& b, const Plan& plan, llvm::Value* x, llvm::Value* y,
                                llvm::Value* sum);
// Adds to each lane of `sum` the products of a pair of bf16 of x and y. The CPU must have that instruction.
llvm::Value* bf16_pair_products(Builder& b, const Plan& plan, llvm::Value* x, llvm::Value* y,
                                llvm::Value* sum);
llvm::Type* accumulator_type(Builder& b, const Plan& plan);

// void(ptr corrections, ptr panel, i64 k)
//
// For a plan that shifts A. Writes i32 [NR + lanes]: the values with which the sums of a packed sliver of k
// groups begin (-128 or +128 times the sums of its columns), and a vector of 0x80 in every byte.
llvm::Function* corrections_routine(Builder& b, const Plan& plan);

} // namespace kiln::cpu::dot
