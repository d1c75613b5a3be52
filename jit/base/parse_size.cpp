// Parses decimal digits and the suffix of a size, with checks for overflow.
#include <kiln/jit/base/parse_size.h>

#include <charconv>
#include <limits>

namespace kiln {

std::optional<std::uint64_t> parse_size(std::string_view text) {
  unsigned shift = 0;
  if (!text.empty()) {
    const char suffix = text.back() & ~0x20; // upper case
    shift = suffix == 'K' ? 10 : suffix == 'M' ? 20 : suffix == 'G' ? 30 : 0;
    if (shift) text.remove_suffix(1);
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return value << shift;
}

} // namespace kiln
