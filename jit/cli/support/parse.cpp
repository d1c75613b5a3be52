// Parses options with CLI11, whose parser is compiled in this file only.
#include <kiln/jit/cli/support/dispatch.h>
#include <kiln/jit/cli/support/parse.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

namespace kiln::cli {

CLI::Validator from_to(double least, double most) {
  return {[=](const std::string& text) {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            const bool number = end != text.c_str() && *end == '\0';
            if (number && value >= least && value <= most) return std::string();
            return fmt::format("{} is not a number from {:.10g} to {:.10g}", text, least, most);
          },
          fmt::format("{:.10g} to {:.10g}", least, most)};
}

CLI::Validator whole_number() {
  return {[](const std::string& text) {
            std::string_view digits = text;
            const bool hexadecimal = digits.starts_with("0x");
            if (hexadecimal) digits.remove_prefix(2);
            std::uint64_t value = 0;
            const char* end = digits.data() + digits.size();
            const auto [at, error] = std::from_chars(digits.data(), end, value, hexadecimal ? 16 : 10);
            if (at == end && error == std::errc()) return std::string();
            return text + " is not a number from 0 to 18446744073709551615";
          },
          ""};
}

CLI::Validator not_empty() {
  return {[](const std::string& text) {
            return text.empty() ? std::string("it is empty; give a value or omit the option") : std::string();
          },
          ""};
}

std::optional<int> parse(CLI::App& app, int argc, char** argv, std::string* wrong) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    if (wrong) return *wrong = error.what(), wrong_usage;
    print_json_error(argc, argv, error.what());
    std::fprintf(stderr, "kiln %s: %s\nrun `kiln %s --help` for its options\n", argv[0], error.what(),
                 argv[0]);
    return wrong_usage;
  }
}

} // namespace kiln::cli
