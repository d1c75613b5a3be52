// How much of the stack an object's functions take.
#pragma once

#include <cstdint>
#include <span>

namespace kiln::cpu {

// Bytes of the largest frame of a function in the object, spilled registers among them; 0 where it does not
// tell.
std::int64_t largest_stack_frame(std::span<const char> object);

} // namespace kiln::cpu
