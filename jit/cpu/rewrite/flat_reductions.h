// Reductions over several axes at once, as one reduction for each axis:
//
//   sum(flatten(x))  becomes  sum(sum(x, 1), 0)
//
// A vector of neighbours in the flat tile is none in x where rows are no multiple of its lanes: each
// element's number would be taken apart by division.
#pragma once

#include <kiln/dsl/ir/ir.h>

namespace kiln::cpu {

// In a kernel that is bound. Conditions:
//   1. One tile is reduced, by one operation that is associative: floats are added in another order.
//   2. It is a tile under another shape, whose axes there the reduced one is alone made of.
//   3. The last of them is no power of two of elements: vectors are of such (reshape.cpp).
//   4. No sum of floats that are narrower than f32, which is rounded once.
void split_flat_reductions(ir::Kernel& kernel);

} // namespace kiln::cpu
