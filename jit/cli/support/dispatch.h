// The `kiln` command itself: finds the subcommand and runs it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln::cli {

inline constexpr int wrong_usage = 2; // exit code

// What `main` of the program does; returns the exit code.
int run(int argc, char** argv);

// For who reads JSON: where --json is among the words, {"error": "..."} on the standard output.
void print_json_error(int argc, char** argv, const std::string& error);

// The name that `typed` was probably meant to be, or empty.
std::string nearest(std::string_view typed, const std::vector<std::string>& names);

} // namespace kiln::cli
