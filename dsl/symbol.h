// Interns names, so that two equal names have the same pointer.
#pragma once

#include <string_view>

namespace kiln {

// The only copy of `text`, which stays valid until the process ends. Thread-safe.
const char* intern(std::string_view text);

} // namespace kiln
