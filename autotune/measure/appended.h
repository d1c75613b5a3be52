// Finds the outputs of a kernel whose elements may be in another order in every launch.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <vector>

namespace kiln::tune {

// Returns for each parameter whether the kernel stores to it at addresses that depend on the old value of an
// atomic operation, as a kernel does that appends to an array through a counter. Which program gets which
// place depends on timing and on the sizes of tiles.
std::vector<bool> appended_parameters(const ir::Kernel& kernel);

} // namespace kiln::tune
