// Adds rounding errors to a kernel, to find how far its outputs move.
//
// Perturbed inputs alone do not show all rounding errors: exp(x) - 1 of a small x is exact to its last place
// as a function of x, but another exp, whose errors are within its bounds, changes many places of the
// difference. So the kernel itself is changed as well: each result of a function, of a sum, of a product of
// matrices or of a loop that sums is multiplied by 1 plus or minus one unit in the last place. The sign
// depends on the result's bits, so that it changes from run to run when the inputs are perturbed.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <memory>

namespace kiln::tune {

// Returns a copy of a recorded kernel with such errors in f32 and f64. What loops carry stays as it is, so
// that loops over products are compiled as they are in the original.
std::unique_ptr<ir::Kernel> with_noise(const ir::Kernel& recorded);

} // namespace kiln::tune
