// Declares a query for the stack that the functions of an object need.
#pragma once

#include <cstdint>
#include <span>

namespace kiln::cpu {

// Returns the bytes of the largest stack frame of a function in the object, including spilled registers; 0 if
// the object has no such data.
std::int64_t largest_stack_frame(std::span<const char> object);

} // namespace kiln::cpu
