// Names the argument whose made-up contents probably made a kernel fail, and says how to give real ones.
#pragma once

#include <kiln/autotune/measure/workload.h>
#include <kiln/dsl/ir/ir.h>

#include <string>

namespace kiln::tune {

enum class Failing : std::uint8_t { endless, other };

// Returns a sentence for an error message, without a period at its end. Empty if no argument with made-up
// contents decides on addresses or loops.
std::string suspect_of(const std::vector<Argument>& arguments, const ir::Kernel& kernel, Failing how);

} // namespace kiln::tune
