// Texts of any bytes, made fit for a page or a table.
#pragma once

#include <string>
#include <string_view>

namespace kiln::tune {

// Bytes that are not UTF-8 become U+FFFD; at most `most` bytes are kept, and an ellipsis says that.
std::string clean_text(std::string_view text, std::size_t most = static_cast<std::size_t>(-1));
std::string html_text(std::string_view text); // cleaned, for use between tags or in a quoted attribute
std::string csv_field(std::string_view text); // cleaned, quoted where it must be
std::string script_json(std::string json);    // so that no </script> or <!-- in it ends the element

} // namespace kiln::tune
