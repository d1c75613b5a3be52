// Defines the callback that ends long-running work early.
#pragma once

#include <functional>

namespace kiln::tune {

// Long-running work calls this from time to time. If it returns true, the work ends and returns what it has
// so far.
using Stop = std::function<bool()>;

} // namespace kiln::tune
