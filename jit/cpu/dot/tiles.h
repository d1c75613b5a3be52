// Products by AMX's tile registers: 32 rows and columns of C in four tiles, at 8 times the rate of vectors.
//
// They read what the vectors read: rows of A in place, and B's packed slivers, whose groups of k are a tile's
// rows already. What does not fill tiles, a ragged end of K and the last rows of A, is left to the vectors;
// columns past the end are zero in the sliver and not stored. See Intel's Instruction Set Extensions
// reference, chapter 3.
#pragma once

#include <kiln/jit/cpu/dot/build.h>
#include <kiln/jit/cpu/dot/plan.h>

namespace kiln::cpu::dot {

inline constexpr int tile_rows = 16; // of a register, and groups of k; a row is 64 bytes
inline constexpr std::int64_t tiles_extent = 2 * tile_rows; // rows and columns of C at a time

bool multiplies_tiles(const Plan& plan);

// Before the first product of a call, and after the last.
void emit_configure_tiles(Builder& b);
void emit_release_tiles(Builder& b);

// `void tiles(a, a_row_stride, b, b_row_stride, c, c_row_stride, i64 n, i64 steps, i1 accumulate)`: strides
// as the microkernel counts them; 32 rows, n of 32 columns, `steps` groups of k, a multiple of 16.
llvm::Function* tiles_routine(Builder& b, const Plan& plan);

} // namespace kiln::cpu::dot
