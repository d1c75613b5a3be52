// Defines the callback that ends long-running work early.
#pragma once

#include <kiln/dsl/api.h>

#include <functional>

KILN_API_BEGIN
namespace kiln::tune {

// Long-running work calls this from time to time. If it returns true, the work ends and returns what it has
// so far.
using Stop = std::function<bool()>;

} // namespace kiln::tune
KILN_API_END
