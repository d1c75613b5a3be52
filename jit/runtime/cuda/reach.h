// Finds out whether kernels of a device can access a piece of memory, according to the CUDA driver. Internal.
#pragma once

#include <kiln/jit/runtime/device.h>

#include <string>

namespace kiln::cuda {

// `device` may be any device, the CPU included. Call it only if opened(). Each thread remembers pages for
// which the answer was yes, so a warm launch does not call the driver. Kiln forgets them when it frees memory
// of a CUDA device. It does not notice when other code frees memory whose addresses are then reused.
// Thread-safe.
bool is_reachable(const void* pointer, Device device);
// Forgets the pages, because memory was freed and its pages may get other owners.
void forget_reachable();
// Explains why not: "memory of the host, which kernels on cuda:0 do not reach; copy it to a Buffer of
// cuda:0".
std::string why_unreachable(const void* pointer, Device device);

} // namespace kiln::cuda
