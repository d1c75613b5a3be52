// Finds the owner of a piece of memory: an emulated device, a CUDA device, or the host.
#include <kiln/jit/runtime/reach.h>

#include <kiln/jit/runtime/cuda/memory.h>
#include <kiln/jit/runtime/cuda/reach.h>
#include <kiln/jit/runtime/emulated/device_state.h>

namespace kiln {

bool is_reachable(const void* pointer, Device device) {
  const int owner = emulated::device_of_pointer(pointer);
  if (device.is_emulated()) return owner == device.index();
  return owner < 0 && (!cuda::opened() || cuda::is_reachable(pointer, device));
}

std::string why_unreachable(const void* pointer, Device device) {
  const int owner = emulated::device_of_pointer(pointer);
  if (owner < 0 && !device.is_emulated()) return cuda::why_unreachable(pointer, device);
  const int cuda_owner = cuda::opened() ? cuda::device_of_pointer(pointer) : -1;
  const std::string where = owner >= 0        ? emulated::DeviceState::get(owner).name()
                            : cuda_owner >= 0 ? "cuda:" + std::to_string(cuda_owner)
                                              : "the host",
                    here = to_string(device);
  return "memory of " + where + ", which kernels on " + here + " do not reach; " +
         (device.is_cpu() ? "launch on a stream of " + where + ", or copy it to the host"
                          : "copy it to a Buffer of " + here);
}

} // namespace kiln
