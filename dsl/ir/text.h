// Defines which words the text of tile IR can have without quotes. The printer quotes or renames all others.
#pragma once

#include <string_view>

namespace kiln::ir {

constexpr bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A letter or _, followed by letters, digits, _ and dots.
constexpr bool is_identifier(std::string_view text) {
  if (text.empty() || !is_word_start(text[0])) return false;
  for (char c : text)
    if (!is_word_start(c) && !is_digit(c) && c != '.') return false;
  return true;
}

// An identifier that is not one of arg0, arg1, ..., which are the names of unnamed parameters.
constexpr bool is_value_name(std::string_view text) {
  if (!is_identifier(text)) return false;
  if (text.size() < 4 || text.substr(0, 3) != "arg") return true;
  for (char c : text.substr(3))
    if (!is_digit(c)) return true;
  return false;
}

} // namespace kiln::ir
