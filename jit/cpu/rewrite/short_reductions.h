// Reductions over a few neighbours, as operations on the tile's halves:
//
//   sum(reshape(x, [M, N, 4]), 2)     becomes, with p = x of [M, N * 4],
//   q = p's even elements + its odd ones; q's even elements + its odd ones
//
// A reduction along the last axis makes vectors along it, which are short here, and what groups hold lies
// side by side in memory anyway. This way vectors run along all groups, and are halved in registers
// (reshape.cpp).
#pragma once

#include <kiln/dsl/ir/ir.h>

namespace kiln::cpu {

// In a kernel that is bound. Conditions:
//   1. One tile is reduced, by one commutative operation, along its last axis: of 2, 4 or 8 elements.
//   2. It is made by elementwise operations of reshaped tiles, along whose axes its groups lie.
//   3. Functions among these operations are used for this reduction alone.
// Floats are added pair by pair; those narrower than f32 in f32.
void halve_short_reductions(ir::Kernel& kernel);

} // namespace kiln::cpu
