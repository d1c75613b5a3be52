// Writes a file that the user requested, either as a whole or not at all.
#pragma once

#include <string>
#include <string_view>

namespace kiln::tune {

// Writes all of the file or nothing: if the disk is full or the process is killed, the previous content
// stays. Pipes and terminals are written directly. Throws UserError, with `what` (e.g. "the report") and the
// path, if the file cannot be written.
void write_file(const std::string& path, std::string_view text, const std::string& what);

} // namespace kiln::tune
