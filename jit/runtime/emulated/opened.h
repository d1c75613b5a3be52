// Finds out whether there are emulated devices, and which device owns an address. Internal.
#pragma once

#include <cstdint>

namespace kiln::emulated {

// Whether an emulated device exists.
bool opened();

// The device that owns the memory at an address, or -1. `room`, if given, gets the number of bytes from there
// to the end of the allocation. Thread-safe.
int device_of_pointer(const void* pointer, std::uint64_t* room = nullptr);

} // namespace kiln::emulated
