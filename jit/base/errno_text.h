// Describes an errno value, with what to do if the process has no file descriptor left.
#pragma once

#include <string>

namespace kiln {

// Whether the error means that the process (or the system) has no file descriptor left. It passes when files
// are closed.
bool no_descriptor_left(int error);

// "Permission denied", or "Too many open files: ..." with the cause and what to do.
std::string errno_text(int error);

} // namespace kiln
