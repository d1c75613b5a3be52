// Emits matrix products into a function under construction: C[m,n] (+)= A[m,k] * B[k,n].
//
// This is the CPU's `dot`. It knows nothing of tile IR: the caller passes LLVM values (pointers, strides,
// valid extents), and a call to a routine in the same module is emitted. On one core the routine is as fast
// as a library's product:
//
//   for each chunk of K that fits the scratch
//     for each sliver of NR columns of B         packed into scratch as [k][NR], or read in place if small
//       for each MR rows of A                    read in place if rows are contiguous; on AMD's CPUs with
//                                                AVX-512 the first rows may pack the sliver as well
//         microkernel: MR x NR accumulators stay in registers over the whole chunk
//
// On AVX-512 the register tile is 6 x 64 for f32 (24 accumulators, 4 vectors of B, 1 broadcast element of A).
// With 16 registers it is narrow, 6 x 16 for f32, and a sliver of B fits L1. All slivers of a chunk of K are
// then packed first, and blocks of A's rows stay in L2 while the slivers pass over them.
//
// Elements whose type is not the accumulator's are converted while they are packed: 16- and 8-bit floats to
// f32, i8 and u8 to pairs of i16, which the multiply-add-pairs instruction sums exactly into i32. CPUs with
// dot products of bf16 pairs or of four bytes multiply those types without a conversion.
//
// AMX multiplies bf16 at 16 times the rate of f32, bytes at 32 times, and is bound by loads. A chunk of K
// of 1024 columns of B is packed for L2, and passes over 32 rows of A that stay in L1. Sums can be rounded
// to bf16 and stored as they leave the registers in the last chunk of K.
//
// In a fixed order (DotShape::fixed_order), sums begin with C in each chunk of K, so that an element's
// products are added in the order of K however the product is divided. Paths that add in another order are
// excluded: inner products, and for bf16 the outer products of few_rows.h; and AMX multiplies any number of
// rows, or none.
//
// Usage, with `builder` inside the caller's function:
//
//   DotShape shape{.a = DType::F32, .b = DType::F32, .m = 256, .n = 256, .k = 64};
//   scratch = <at least dot_scratch_bytes(shape, target) bytes, 64-byte aligned, one per thread>
//   DotContext context{builder, shape, target};
//   emit_dot_accumulate(context, {.a = {a, lda, one}, .b = {b, ldb, one}, .c = c, .c_row_stride = ldc,
//                                 .m = m, .n = n, .k = k, .accumulate = builder.getTrue(),
//                                 .scratch = scratch});
//
// The routines are internal functions named "kiln.dot...". Each is created once per module and found by its
// name, so that a second product of the same types costs one call instruction. They have the target
// attributes of the caller. Their IR is in its final form: it needs no inlining, unrolling or
// vectorisation, only cheap scalar passes.
#pragma once

#include <kiln/jit/cpu/dot/dot_shape.h>
#include <llvm/IR/IRBuilder.h>

namespace kiln::cpu {

// Whether the routine for a shape with `rounds` can store rounded sums.
bool dot_stores_rounded(const DotShape& shape, const DotTarget& target);

// The size of the scratch memory that the routine writes, in bytes. The memory needs no initialisation and
// holds nothing between calls.
std::int64_t dot_scratch_bytes(const DotShape& shape, const DotTarget& target);

struct DotContext {
  llvm::IRBuilder<>& builder;
  DotShape shape;
  DotTarget target;
};

// Emits a call that computes the product, at the builder's insertion point.
void emit_dot_accumulate(DotContext& context, const DotOperands& operands);

} // namespace kiln::cpu
