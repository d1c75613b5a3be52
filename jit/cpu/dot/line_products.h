// Declares the routines for skinny products that read B line by line, in the order of memory.
//
// A line is a row or a column of B, whichever is contiguous, and is so short that it can be multiplied as a
// whole before the next one is read:
//
//   rows of B contiguous:     C[r, :] += A[r, k] * B[k, :], with some rows of C in registers
//   columns of B contiguous:  C[r, n] = sum over k of A[r, k] * B[k, n], for each column by itself
//
// Reading several lines side by side, as few_rows.h does, keeps the hardware from recognising a stream: one
// thread of a Zen 4 reads 11 GB/s of eight columns of 512 bytes at a time, and 32 GB/s of one column after
// the other. With prefetches a few lines ahead it is 41 GB/s, and with prefetches farther ahead 27 GB/s.
// Attention's products of few queries with blocks of keys and of values are of this kind.
#pragma once

#include <kiln/jit/cpu/dot/build.h>
#include <kiln/jit/cpu/dot/plan.h>

namespace kiln::cpu::dot {

// Whether there are such routines for a plan. They may be called if B's lines are exactly as long as the
// plan's shape says; where bf16 are multiplied in pairs, and for inner products, A's column stride must be 1.
bool inner_line_products_possible(const Plan& plan);
bool outer_line_products_possible(const Plan& plan);

// void(ptr a, i64 a_row_stride, i64 a_column_stride, ptr b, i64 b_stride, ptr c, i64 c_row_stride, i64 m,
//      i64 n, i64 k, i1 accumulate, i64 to_next_b)
//
// All extents are at least 1. A holds elements as they are in memory. b_stride is the distance of B's lines,
// and to_next_b that of DotOperands, which is ignored if the shape does not prefetch.
llvm::Function* inner_line_products(Builder& b, const Plan& plan);
llvm::Function* outer_line_products(Builder& b, const Plan& plan);

} // namespace kiln::cpu::dot
