// Describes what a kernel computes, as far as the rounding errors of its outputs depend on it.
#pragma once

#include <kiln/autotune/measure/arrays.h>
#include <kiln/autotune/measure/loaded_candidate.h>

namespace kiln::tune {

// Returns the number of terms of the longest sum, or of floating-point operations for each element that is
// written if that is larger. Unknown sizes count as a long sum.
double terms_per_element(const Situation& situation, const MemoryPlan& plan,
                         const LoadedCandidate& candidate);

// Returns whether the kernel rounds floats to whole numbers or compares them.
bool decides_by_floats(const ir::Kernel& kernel);

} // namespace kiln::tune
