// Varies the integers and bools among the inputs on which a winner is verified.
#pragma once

#include <kiln/autotune/measure/arrays.h>

namespace kiln::tune {

// Constant contents, such as those of a new array or a mask of all elements, hide errors, and so do contents
// without negative numbers. The former are replaced by random ones, and if the dtype is signed, about half of
// the latter are negated, less one. Left alone are contents that decide on addresses or loops
// (MemoryPlan::Place::steers), those that share bytes with such ones or with another dtype, and declared
// ranges.
void vary_integers(const MemoryPlan& plan, const std::vector<Argument>& arguments, std::uint64_t seed,
                   Contents& contents);

} // namespace kiln::tune
