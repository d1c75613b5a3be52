// Implements the option --plugin, which loads a library whose kernels can then be tuned.
#pragma once

#include <string>

namespace kiln::tune {

// Loads the library, which stays loaded, since registrations point into it. Throws UserError if it cannot be
// loaded.
void open_plugin(const std::string& path);

} // namespace kiln::tune
