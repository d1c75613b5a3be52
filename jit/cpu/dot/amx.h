// Declares the routine that multiplies with AMX: 32 x 32 elements of C in four tile registers.
//
// AMX multiplies at 8 times the rate of vectors. The routine reads the same operands as the vector
// microkernel: rows of A, packed or in place, and packed slivers of B, whose groups of k already have the
// layout of a tile's rows. Where K ends within a tile, both operands are packed and padded with zeros. Where
// fewer than 32 rows of A are left, the tiles are configured with fewer rows. Columns past the end are zero
// in the sliver and are not stored. Intel's Instruction Set Extensions reference describes the instructions
// in chapter 3.
#pragma once

#include <kiln/jit/cpu/dot/build.h>
#include <kiln/jit/cpu/dot/plan.h>

namespace kiln::cpu::dot {

// Configures the tile registers for products of `rows` rows, 1 to 32. Code calls it before such products, and
// releases the registers after the last product of a call.
void emit_configure_amx(Builder& b, llvm::Value* rows);
void emit_release_amx(Builder& b);

// void(ptr a, i64 a_row_stride, ptr b, ptr c, i64 c_row_stride, i64 m, i64 n, i64 steps, i1 accumulate,
//      ptr ahead, i64 ahead_row_stride)
//
// Strides count what the microkernel's strides count, and `b` points into a packed sliver. m is the number of
// rows that the registers are configured for, n is at most 32, and `steps` is the number of groups of k, a
// multiple of 16. `ahead` points to rows of A that are needed soon, of which the routine prefetches
// tuning::amx_prefetch_rows into L2; they may lie at any address. Shapes that round have two more parameters,
// `ptr rounded, i64 rounded_row_stride`: unless `rounded` is null, the sums go there and not to C.
llvm::Function* amx_routine(Builder& b, const Plan& plan);

} // namespace kiln::cpu::dot
