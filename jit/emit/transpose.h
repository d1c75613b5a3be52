// Transposes square matrices in registers.
#pragma once

#include <kiln/jit/emit/lanes.h>

namespace kiln::emit {

// The columns of a matrix that is given by its rows: n vectors of n lanes, where n is a power of two. It
// takes n log2(n) shuffles. Each of these is one instruction if one instruction interleaves the halves of
// blocks of `block_bits` bits: 128 on AVX2, AVX-512 and NEON, the whole vector on SVE.
Values transposed(IRBuilder& b, Values rows, int block_bits = 128);

// Transposes each square of n x n lanes of n vectors, whose number of lanes is a multiple of n: lane k n + i
// of vector j becomes lane k n + j of vector i. n is a power of two.
Values transposed_squares(IRBuilder& b, Values rows);

// The columns of a matrix that follow one another in n vectors, row after row, where each row has n elements:
// lane i of column c is element i n + c. interleaved() is the inverse. Both take up to n (n - 1) shuffles.
Values deinterleaved(IRBuilder& b, const Values& rows);
Values interleaved(IRBuilder& b, const Values& columns);

// One vector after the other: a vector of all their lanes. The number of vectors is a power of two.
llvm::Value* joined(IRBuilder& b, Values vectors);

} // namespace kiln::emit
