// Products by AMX's tile registers: 32 rows and columns of C in four tiles, at 8 times the rate of vectors.
//
// They read what the vectors read: rows of A, packed or in place, and B's packed slivers, whose groups of k
// are a tile's rows already. Where K ends within a tile, both are packed and filled up with zeros; fewer rows
// of A are tiles of fewer rows; columns past the end are zero in the sliver and not stored. See Intel's
// Instruction Set Extensions reference, chapter 3.
#pragma once

#include <kiln/jit/cpu/dot/build.h>
#include <kiln/jit/cpu/dot/plan.h>

namespace kiln::cpu::dot {

// Before products of up to 32 rows, and after the last product of a call.
void emit_configure_amx(Builder& b, llvm::Value* rows);
void emit_release_amx(Builder& b);

// `void tiles(a, a_row_stride, b, c, c_row_stride, i64 m, i64 n, i64 steps, i1 accumulate,
// ahead, ahead_row_stride)`: strides as the microkernel counts them, b in a packed sliver; m of 32 rows, as
// configured; n of 32 columns; `steps` groups of k, a multiple of 16. `ahead` are rows of A that are soon
// needed, of which `tuning::amx_prefetch_rows` come into the second cache meanwhile; they may lie anywhere. Of shapes
// that round, two more: `rounded, rounded_row_stride`, which take the sums in place of C unless `rounded` is
// null.
llvm::Function* amx_routine(Builder& b, const Plan& plan);

} // namespace kiln::cpu::dot
