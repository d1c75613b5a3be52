// Finds how many rounding operations of a kernel depend on each other.
#pragma once

#include <kiln/dsl/ir/ir.h>

namespace kiln::tune {

// Returns the length of the longest chain of floating-point operations that round, each of which uses the
// result of the one before: 0 for a kernel that only moves, compares and converts, 1 for one that multiplies
// or adds each element once. Longer chains count as 2, and so does whatever may be computed in several ways:
// functions, quotients, sums of more than two terms. If it is below 2, configs that are right compute the
// same bits.
int rounding_depth(const ir::Kernel& kernel);

} // namespace kiln::tune
