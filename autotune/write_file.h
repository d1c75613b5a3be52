// Writes a file that a user asked for.
#pragma once

#include <string>
#include <string_view>

namespace kiln::tune {

// Whole or not at all: a full disk or a killed process leaves what was there before. A pipe or a terminal is
// written to as it is. UserError, with `what` ("the report") and the path, if it cannot be written.
void write_file(const std::string& path, std::string_view text, const std::string& what);

} // namespace kiln::tune
