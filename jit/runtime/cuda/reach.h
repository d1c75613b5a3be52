// Whether kernels of a device reach a piece of memory, as the CUDA driver knows it. Not for users.
#pragma once

#include <kiln/jit/runtime/device.h>

#include <string>

namespace kiln::cuda {

// For any device, the CPU included; ask only where opened(). Pages for which the answer was yes are
// remembered per thread, so that a warm launch asks nothing, until Kiln frees memory of a CUDA device: what
// others free, and whose addresses somebody else gets, is not noticed. Thread-safe.
bool is_reachable(const void* pointer, Device device);
// Memory was freed: pages may have other owners.
void forget_reachable();
// "memory of the host, which kernels on cuda:0 do not reach; copy it to a Buffer of cuda:0"
std::string why_unreachable(const void* pointer, Device device);

} // namespace kiln::cuda
