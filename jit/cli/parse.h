// Reads a subcommand's options with CLI11; wrong ones give exit code 2.
#pragma once

#include <kiln/jit/cli/dispatch.h>

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

namespace kiln::cli {

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
