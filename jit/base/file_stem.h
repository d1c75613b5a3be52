// How files are named after kernels, whose names may be any text.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace kiln {

// The name with '_' for what is no letter, digit, '_' or '-', and not so long that a file system refuses it.
// Two names may have the same stem.
inline std::string file_stem(std::string_view name) {
  constexpr std::size_t longest = 128;
  std::string stem(name.substr(0, longest));
  for (char& c : stem)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-') c = '_';
  return stem;
}

} // namespace kiln
