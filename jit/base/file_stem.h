// Makes file names from names of kernels, which may be any text.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace kiln {

// The name with '_' in place of every character except letters, digits, '_' and '-', cut so that file systems
// accept its length. Two names may have the same stem.
inline std::string file_stem(std::string_view name) {
  constexpr std::size_t longest = 128;
  std::string stem(name.substr(0, longest));
  for (char& c : stem)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-') c = '_';
  return stem;
}

} // namespace kiln
