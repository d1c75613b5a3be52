// Whether there are emulated devices, and whose memory is whose. Not for users.
#pragma once

#include <cstdint>

namespace kiln::emulated {

// True if some emulated device exists.
bool opened();

// Which device's memory an address is in; -1 for none's. `room`, if given, gets the bytes from there to the
// allocation's end. Thread-safe.
int device_of_pointer(const void* pointer, std::uint64_t* room = nullptr);

} // namespace kiln::emulated
