// Parses the options of a subcommand with CLI11. Wrong options give exit code 2.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

namespace kiln::cli {

// Checks that an option is a number from `least` to `most`.
CLI::Validator from_to(double least, double most);

// Checks that an option is a number from 0 to 2^64 - 1, decimal or 0x... (CLI11 itself takes -1 for 2^64 - 1,
// and cuts off larger numbers.)
CLI::Validator whole_number();

// Checks that the value of an option is not empty. An empty value, such as that of an unset variable, does
// not mean the default.
CLI::Validator not_empty();

// Returns the exit code if the command ends here, because of --help or wrong options. `wrong`, if given,
// receives the message instead of the terminal.
std::optional<int> parse(CLI::App& app, int argc, char** argv, std::string* wrong = nullptr);

} // namespace kiln::cli
