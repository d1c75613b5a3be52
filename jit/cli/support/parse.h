// Reads a subcommand's options with CLI11; wrong ones give exit code 2.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

namespace kiln::cli {

// That an option is a number, not less and not more than these.
CLI::Validator from_to(double least, double most);

// That an option is a number from 0 to 2^64 - 1, decimal or 0x...: CLI11 takes -1 for 2^64 - 1, and cuts off
// what is longer.
CLI::Validator whole_number();

// That an option has a value: one that is empty, as of a variable that is not set, is not the default.
CLI::Validator not_empty();

// The exit code if the command ends here: --help was asked for, or the options are wrong; `wrong`, if given,
// takes what is printed otherwise.
std::optional<int> parse(CLI::App& app, int argc, char** argv, std::string* wrong = nullptr);

} // namespace kiln::cli
