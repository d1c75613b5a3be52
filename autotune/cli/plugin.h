// --plugin of the subcommands: a library whose kernels join those that can be tuned.
#pragma once

#include <string>

namespace kiln::tune {

// It stays open: what it registered points into it. UserError if it cannot be opened.
void open_plugin(const std::string& path);

} // namespace kiln::tune
