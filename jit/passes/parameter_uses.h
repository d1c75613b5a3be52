// Declares the analysis that finds how a kernel uses the memory behind each of its parameters.
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <vector>

namespace kiln::passes {

// An atomic operation reads and writes.
struct ParameterUse {
  bool read = false;
  bool written = false;
};

// Returns one use for each parameter; scalars have none. Follows pointers from views and pointer parameters
// through arithmetic, shape operations, selections, loops and branches. A pointer that is made from something
// else, such as an integer, may point to the memory of any view or pointer.
std::vector<ParameterUse> parameter_uses(const ir::Kernel& kernel);

} // namespace kiln::passes
