// Adds rounding errors to a kernel, to find how far its outputs move.
//
// Perturbed inputs alone do not show all rounding errors: exp(x) - 1 of a small x is exact to its last place
// as a function of x, but another exp, whose errors are within its bounds, changes many places of the
// difference. So the kernel itself is changed as well: each result of a function, of a sum, of a product of
// matrices or of a loop that sums is multiplied by 1 plus or minus one unit in the last place. The sign
// depends on the result's bits, so that it changes from run to run when the inputs are perturbed.
//
// A sum of n terms rounds up to n times: a config that adds them one after the other makes errors of about
// sqrt(n) / 7 units in the last place of its largest partial sums, and one that adds them as a tree makes
// almost none. The reference may be of either kind, so the errors of the former are added to it, multiplied
// by about 2.5: each term of a reduction of n elements and its result get sqrt(n) / 2 units, and what a loop
// adds to a carried sum gets as many in each iteration.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <memory>

namespace kiln::tune {

// Returns a copy of a recorded kernel, whose dimensions have the sizes of `config`, with such errors in all
// floats of 16 bits and more. An element that atomics add to is taken to be a sum of `atomic_terms`. Whole
// numbers, such as counts, get errors only where they are too large to be exact. What is carried by loops
// over products of matrices stays as it is, so that these are compiled as they are in the original.
std::unique_ptr<ir::Kernel> with_noise(const ir::Kernel& recorded, const Config& config, double atomic_terms);

// Returns whether a kernel adds up products of matrices, or floats by atomics. Errors of these sums are not
// all simulated.
bool has_products(const ir::Kernel& kernel);
bool adds_floats_by_atomics(const ir::Kernel& kernel);

} // namespace kiln::tune
