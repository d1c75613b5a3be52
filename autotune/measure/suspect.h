// Names the argument whose contents probably made a kernel fail, and says what to do about them.
#pragma once

#include <kiln/autotune/measure/workload.h>
#include <kiln/dsl/ir/ir.h>

#include <string>

namespace kiln::tune {

enum class Failing : std::uint8_t { endless, crash, other };

// Returns a sentence for an error message, without a period at its end. Empty if no argument is suspicious:
// only contents that decide on addresses or loops are. Given contents are suspected of a crash or an endless
// loop if there are no made-up ones, and so are the sizes of raw pointers of a crash.
std::string suspect_of(const std::vector<Argument>& arguments, const ir::Kernel& kernel, Failing how);

} // namespace kiln::tune
