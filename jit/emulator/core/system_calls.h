// Declares the functions that a driver provides to kernels: vprintf and __assertfail.
#pragma once

#include "program.h"

#include <string_view>

namespace kiln::emulator {

Handler
system_call(std::string_view name); // null if there is none; extras: results, then parameters, in the frame

} // namespace kiln::emulator
