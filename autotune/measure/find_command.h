// Finds the `kiln` command, which runs the measuring processes.
#pragma once

#include <string>

namespace kiln::tune {

// Returns its path. Throws UserError with the places that were searched if there is none. See
// live_measurer.h.
std::string find_command();

} // namespace kiln::tune
