// Formats numbers with a unit, chosen so that one to four digits precede the decimal point.
#include <kiln/jit/cli/support/text.h>

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace kiln::cli {

namespace {

template <std::size_t N>
std::string scaled(double value, double step, const char* const (&prefixes)[N], const std::string& unit) {
  std::size_t prefix = 0;
  while (value >= step && prefix + 1 < N)
    value /= step, ++prefix;
  bool whole = prefix == 0 && value == std::floor(value);
  return fmt::format(fmt::runtime(whole ? "{:.0f} {}{}" : "{:.4g} {}{}"), value, prefixes[prefix], unit);
}

} // namespace

std::string bytes_text(double bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scaled(bytes, 1024, units, "");
}

std::string count_text(double count, const std::string& unit) {
  static constexpr const char* prefixes[] = {"", "K", "M", "G", "T", "P"};
  return scaled(count, 1000, prefixes, unit);
}

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.4g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.4g} ms", seconds * 1e3);
  if (seconds >= 1e-6) return fmt::format("{:.4g} us", seconds * 1e6);
  return fmt::format("{:.4g} ns", seconds * 1e9);
}

} // namespace kiln::cli
