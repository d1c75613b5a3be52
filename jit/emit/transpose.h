// Transposes square matrices in registers.
#pragma once

#include <kiln/jit/emit/lanes.h>

namespace kiln::emit {

// The columns of a matrix that is given by its rows: n vectors of n lanes, where n is a power of two. It
// takes n log2(n) shuffles. Each of these is one instruction if one instruction interleaves the halves of
// blocks of `block_bits` bits: 128 on AVX2, AVX-512 and NEON, the whole vector on SVE.
Values transposed(IRBuilder& b, Values rows, int block_bits = 128);

// Transposes each square of n x n lanes of n vectors, whose number of lanes is a multiple of n: lane k n + i of
// vector j becomes lane k n + j of vector i. n is a power of two.
Values transposed_squares(IRBuilder& b, Values rows);

} // namespace kiln::emit
