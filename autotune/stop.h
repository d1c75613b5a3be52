// How what takes long is told to end.
#pragma once

#include <functional>

namespace kiln::tune {

// Asked now and then by what takes long: true where it should end now, with what it has.
using Stop = std::function<bool()>;

} // namespace kiln::tune
