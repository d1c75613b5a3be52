// Finds out whether kernels on a device can access a piece of memory. Internal.
#pragma once

#include <kiln/jit/runtime/cuda/driver.h>
#include <kiln/jit/runtime/device.h>
#include <kiln/jit/runtime/emulated/opened.h>

#include <string>

namespace kiln {

// Whether there may be memory besides the host's.
inline bool memories_differ() { return cuda::opened() || emulated::opened(); }
bool is_reachable(const void* pointer, Device device);
// Explains why not: "memory of the host, which kernels on cuda:0 do not reach; copy it to a Buffer of
// cuda:0".
std::string why_unreachable(const void* pointer, Device device);

} // namespace kiln
