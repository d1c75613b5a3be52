// Implements the cleaning of UTF-8 and the escapes of HTML, CSV and JSON.
#include <kiln/autotune/report/text.h>

#include <cstdint>

namespace kiln::tune {

namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD", ellipsis = "\xE2\x80\xA6";

// Returns the number of bytes of the character at the front, or 0 if the text does not start with a
// well-formed one by the Unicode standard (section 3.9, table 3-7).
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
  };
  const auto follows = [&](std::size_t i, int least = 0x80, int most = 0xBF) {
    return byte(i) >= least && byte(i) <= most;
  };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF)
    return follows(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && follows(2) ? 3 : 0;
  if (first >= 0xF0 && first <= 0xF4)
    return follows(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) && follows(2) && follows(3)
               ? 4
               : 0;
  return 0;
}

} // namespace

std::string clean_text(std::string_view text, std::size_t most) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const std::string_view character = bytes ? text.substr(0, bytes) : replacement;
    if (clean.size() + character.size() > most) return clean += ellipsis;
    clean += character;
    text.remove_prefix(bytes ? bytes : 1);
  }
  return clean;
}

std::string html_text(std::string_view text) {
  std::string html;
  for (char c : clean_text(text))
    switch (c) {
    case '&': html += "&amp;"; break;
    case '<': html += "&lt;"; break;
    case '>': html += "&gt;"; break;
    case '"': html += "&quot;"; break;
    case '\'': html += "&#39;"; break;
    default: html += c;
    }
  return html;
}

std::string csv_field(std::string_view text) {
  const std::string clean = clean_text(text);
  if (clean.find_first_of(",\"\r\n") == std::string::npos) return clean;
  std::string field = "\"";
  for (char c : clean)
    field += c == '"' ? "\"\"" : std::string(1, c);
  return field + '"';
}

std::string script_json(std::string json) {
  std::string safe;
  for (char c : json)
    if (c == '<')
      safe += "\\u003c"; // '<' occurs only inside strings
    else
      safe += c;
  return safe;
}

} // namespace kiln::tune
