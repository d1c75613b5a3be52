// Extracts the readable part of a JSON library error for messages.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace kiln::tune {

// Returns the message without the library's "[json.exception...]" prefix, e.g. "type must be number, but is
// string".
inline std::string json_reason(const nlohmann::json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t name_end = text.starts_with('[') ? text.find("] ") : std::string_view::npos;
  return std::string(name_end == std::string_view::npos ? text : text.substr(name_end + 2));
}

} // namespace kiln::tune
