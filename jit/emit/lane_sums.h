// Adds up the lanes of several vectors together.
#pragma once

#include <kiln/jit/emit/lanes.h>

namespace kiln::emit {

// A vector whose lane i is the sum of the lanes of vector i. n is the number of lanes, a power of two, and
// there are 1 to n vectors; further lanes of the result are unspecified. n vectors take n - 1 additions and
// 2 (n - 1) shuffles, about a third of what the vectors take one by one. The order of additions is the same
// for each vector.
llvm::Value* lane_sums(IRBuilder& b, Values vectors);

} // namespace kiln::emit
