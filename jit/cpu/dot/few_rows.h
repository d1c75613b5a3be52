// Declares the routines for skinny products: few rows of A, which take as long as reading B takes.
//
// Packing B would take longer than the product. These routines read B once, in long runs, in the order in
// which it lies in memory:
//
//   rows of B contiguous:     C[r, :] += A[r, k] * B[k, :], eight k at a time, with C in L1
//   columns of B contiguous:  C[r, n] = sum over k of A[r, k] * B[k, n], a vector of k at a time
//
// Elements are converted as they are loaded, which costs nothing while memory is the limit.
#pragma once

#include <kiln/jit/cpu/dot/build.h>
#include <kiln/jit/cpu/dot/plan.h>

namespace kiln::cpu::dot {

// void(ptr a, i64 a_row_stride, ptr b, i64 b_stride, ptr c, i64 c_row_stride, i64 m, i64 n, i64 k,
//      i1 accumulate, i64 to_next_b)
//
// All extents are at least 1. For outer products `a` holds accumulator elements, and b_stride is the stride
// of B's rows. For inner products `a` holds elements as they are in memory, and b_stride is the stride of B's
// columns. to_next_b is that of DotOperands, and ignored if the shape does not prefetch.
llvm::Function* outer_products(Builder& b, const Plan& plan);
llvm::Function* inner_products(Builder& b, const Plan& plan);

} // namespace kiln::cpu::dot
