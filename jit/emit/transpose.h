// Square matrices in registers.
#pragma once

#include <kiln/jit/emit/lanes.h>

namespace kiln::emit {

// The columns of a matrix whose rows are these: n vectors of n lanes, n a power of two. It takes n log2(n)
// shuffles, each of which is one instruction where the halves of `block_bits` can be interleaved by one: 128
// on AVX2, AVX-512 and NEON, all of a vector on SVE.
Values transposed(IRBuilder& b, Values rows, int block_bits = 128);

} // namespace kiln::emit
