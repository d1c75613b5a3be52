// Reads a subcommand's options with CLI11; wrong ones give exit code 2.
#pragma once

#include <kiln/jit/cli/dispatch.h>

#include <CLI/CLI.hpp>

#include <optional>

namespace kiln::cli {

// The exit code if the command ends here: --help was asked for, or the options are wrong.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "kiln %s: %s\nrun `kiln %s --help` for its options\n", argv[0], error.what(),
                 argv[0]);
    return wrong_usage;
  }
}

} // namespace kiln::cli
