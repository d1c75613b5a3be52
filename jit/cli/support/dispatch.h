// Runs the `kiln` command: finds a subcommand by its name and calls it.
#pragma once

#include <kiln/dsl/api.h>

#include <string>
#include <string_view>
#include <vector>

KILN_API_BEGIN
namespace kiln::cli {

inline constexpr int wrong_usage = 2; // exit code

// Runs the `kiln` command with the arguments of the program's main(), and returns its exit code: 0, 1 for a
// failure, or wrong_usage.
int run(int argc, char** argv);

} // namespace kiln::cli
KILN_API_END

namespace kiln::cli {

// The rest is for Kiln itself and is not exported.

// If --json is among the words, prints {"error": "..."} to the standard output, for programs that read JSON.
void print_json_error(int argc, char** argv, const std::string& error);

// Returns the name that the user probably meant by `typed`, or an empty string if none is close to it.
std::string nearest(std::string_view typed, const std::vector<std::string>& names);

} // namespace kiln::cli
