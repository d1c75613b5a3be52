// Whether kernels of a device reach a piece of memory, on any kind of device. Not for users.
#pragma once

#include <kiln/jit/runtime/cuda/driver.h>
#include <kiln/jit/runtime/device.h>
#include <kiln/jit/runtime/emulated/opened.h>

#include <string>

namespace kiln {

// False while there is no memory but the host's.
inline bool memories_differ() { return cuda::opened() || emulated::opened(); }
bool is_reachable(const void* pointer, Device device);
// "memory of the host, which kernels on cuda:0 do not reach; copy it to a Buffer of cuda:0"
std::string why_unreachable(const void* pointer, Device device);

} // namespace kiln
