// Formats numbers for the output of commands.
#pragma once

#include <string>

namespace kiln::cli {

std::string bytes_text(double bytes);                          // "1.5 MiB"
std::string count_text(double count, const std::string& unit); // "17.2 GFLOP"
std::string time_text(double seconds);                         // "1.25 ms"

} // namespace kiln::cli
