// Finds the `kiln` command, whose processes measure.
#pragma once

#include <string>

namespace kiln::tune {

// Its path. UserError that says where it was looked for if there is none. See live_measurer.h.
std::string find_command();

} // namespace kiln::tune
