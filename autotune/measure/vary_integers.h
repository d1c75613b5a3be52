// Varies the integers and bools among the inputs on which a winner is verified.
#pragma once

#include <kiln/autotune/measure/arrays.h>

namespace kiln::tune {

// Contents that look alike hide errors. This replaces, in each array,
//   constants, such as in a new array or a mask of all elements, by small random numbers;
//   half of the numbers by negative ones, if the dtype is signed and none is negative;
//   some numbers by large ones, whose products overflow, or which have the top bit of an unsigned dtype; and
//   some rows of a mask (bools, or integers that are 0 or 1) by zeros, and some rows of other signed numbers
//   by negative ones.
// Left alone are contents that decide on addresses or loops (MemoryPlan::Place::steers), those that share
// bytes with such ones or with another dtype, and declared ranges. But constants among the former that are
// equal to an extent are lengths that are all full, half of which become smaller.
void vary_integers(const MemoryPlan& plan, const std::vector<Argument>& arguments, std::uint64_t seed,
                   Contents& contents);

} // namespace kiln::tune
