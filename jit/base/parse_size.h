// Parses a number of bytes as users and Linux write it: "65536", "48K", "500M", "2G".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln {

// A decimal number with an optional suffix K, M or G, in either case, which stand for powers of 1024. Nothing
// if the text is something else or the result exceeds 64 bits.
std::optional<std::uint64_t> parse_size(std::string_view text);

} // namespace kiln
