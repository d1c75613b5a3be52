// Reads the file that a command line names.
#pragma once

#include <string>

namespace kiln::cli {

// The path - means the standard input. UserError "PATH: cannot be read: WHY; ADVICE" for folders and for
// files that cannot be read.
std::string read_input(const std::string& path, const std::string& advice);

} // namespace kiln::cli
