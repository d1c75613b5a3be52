// Emits block matrix products into a function being built: C[m,n] (+)= A[m,k] * B[k,n].
//
// This is the CPU's `dot`. It knows nothing of tile IR: the caller hands over LLVM values (pointers, strides,
// valid extents) and gets a call to a routine that lives in the same module. The routine is the measured
// recipe for a library-speed product on one core:
//
//   for each chunk of K that fits the scratch
//     for each sliver of NR columns of B              packed into scratch as [k][NR], or in place if small
//       for each MR rows of A                         read in place by broadcast if rows are contiguous; the
//                                                     first may pack the sliver (AVX-512 of AMD's)
//         microkernel: MR x NR accumulators stay in registers over the whole chunk
//
// With 16 registers the tile is narrow, 6 x 16 for f32, and a sliver of B fits the first cache. Then a chunk
// of K of all slivers is packed first, and blocks of A's rows stay in the second cache while the slivers
// pass.
//
// On AVX-512 the register tile is 6 x 64 for f32 (24 accumulators, 4 vectors of B, 1 broadcast). Elements
// that are not of the accumulator's type are converted while packing: 16- and 8-bit floats to f32; i8 and u8
// to pairs of i16, which the multiply-add-pairs instruction sums exactly into i32. CPUs with dot products of
// bf16 pairs or of four bytes multiply those as they are.
//
// AMX's tile registers multiply bf16 at 16 times f32's rate, bytes at 32, and loading them is what counts: of
// 1024 columns of B a chunk of K is packed for the second cache, and passes 32 rows of A that stay in the
// first. Where all of K is one chunk, the sums can be rounded to bf16 and stored as they leave the registers;
// of several chunks, the last one's can.
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
// The routines are internal functions named "kiln.dot...", made once per module and found again by name, so a
// second product of the same types costs one call instruction. They carry the caller's target attributes. The
// IR is in its final form: no inlining, unrolling or vectorising is wanted; the cheap scalar passes are
// enough.
#pragma once

#include <kiln/jit/cpu/dot/dot_shape.h>
#include <llvm/IR/IRBuilder.h>

namespace kiln::cpu {

// Whether the routine of a shape that `rounds` can store the sums rounded.
bool dot_stores_rounded(const DotShape& shape, const DotTarget& target);

// Bytes of scratch memory that the routine writes; it needs no initialisation and holds nothing between
// calls.
std::int64_t dot_scratch_bytes(const DotShape& shape, const DotTarget& target);

struct DotContext {
  llvm::IRBuilder<>& builder;
  DotShape shape;
  DotTarget target;
};

// Emits the product at the builder's insertion point.
void emit_dot_accumulate(DotContext& context, const DotOperands& operands);

} // namespace kiln::cpu
