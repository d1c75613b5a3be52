// Cleans and escapes texts that may hold any bytes, for HTML, CSV and JSON in a script element.
#pragma once

#include <string>
#include <string_view>

namespace kiln::tune {

// Replaces bytes that are not UTF-8 by U+FFFD and keeps at most `most` bytes, with an ellipsis if the text
// was cut.
std::string clean_text(std::string_view text, std::size_t most = static_cast<std::size_t>(-1));
// Clean and escape a text, for use between tags or in a quoted attribute; for a CSV field, quoted if needed.
std::string html_text(std::string_view text);
std::string csv_field(std::string_view text);
// Escapes JSON so that a </script> or <!-- in it does not end the script element.
std::string script_json(std::string json);

} // namespace kiln::tune
