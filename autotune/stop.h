// Defines the callback that ends long-running work early.
#pragma once

#include <functional>

namespace kiln::tune {

// Long-running functions call this from time to time. If it returns true, they end and return the results
// that they have.
using Stop = std::function<bool()>;

} // namespace kiln::tune
