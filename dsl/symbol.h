// Interned names: two symbols are equal exactly if their pointers are.
#pragma once

#include <string_view>

namespace kiln {

// The one copy of `text` that lives as long as the program. Thread-safe.
const char* intern(std::string_view text);

} // namespace kiln
