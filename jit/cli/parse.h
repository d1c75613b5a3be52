// Reads a subcommand's options with CLI11; wrong ones give exit code 2.
#pragma once

#include <kiln/jit/cli/dispatch.h>

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <optional>
#include <string>

#include <fmt/format.h>

namespace kiln::cli {

// That an option is a number, not less and not more than these.
inline CLI::Validator from_to(double least, double most) {
  return {[=](const std::string& text) {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            const bool number = end != text.c_str() && *end == '\0';
            if (number && value >= least && value <= most) return std::string();
            return fmt::format("{} is not a number from {:.10g} to {:.10g}", text, least, most);
          },
          fmt::format("{:.10g} to {:.10g}", least, most)};
}

// The exit code if the command ends here: --help was asked for, or the options are wrong; `wrong`, if given,
// takes what is printed otherwise.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv, std::string* wrong = nullptr) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    if (wrong) return *wrong = error.what(), wrong_usage;
    std::fprintf(stderr, "kiln %s: %s\nrun `kiln %s --help` for its options\n", argv[0], error.what(),
                 argv[0]);
    return wrong_usage;
  }
}

} // namespace kiln::cli
