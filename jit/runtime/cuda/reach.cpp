// Queries the driver about pointers, and remembers the answers by page.
#include <kiln/jit/runtime/cuda/reach.h>

#include <kiln/jit/runtime/cuda/current.h>
#include <kiln/jit/runtime/cuda/memory.h>

#include <algorithm>
#include <atomic>

namespace kiln::cuda {

namespace {

constexpr std::size_t slots = 256;
constexpr std::uint64_t most_devices = 63;

// Combines a page and a device in one word; 0 if the device's number does not fit.
std::uint64_t tag_of(const void* pointer, Device device) {
  const std::uint64_t number = device.is_cpu() ? 1 : static_cast<std::uint64_t>(device.index()) + 2;
  return number > most_devices ? 0 : (reinterpret_cast<std::uintptr_t>(pointer) >> 12 << 6) + number;
}

[[gnu::cold]] bool ask(const void* pointer, Device device) {
  if (device.is_cpu()) return device_of_pointer(pointer) < 0;
  DeviceState& state = DeviceState::get(device.index());
  Current current(state);
  DevicePointer there = 0;
  const auto address = reinterpret_cast<DevicePointer>(pointer);
  if (state.driver().cuPointerGetAttribute(&there, pointer_attribute_device_pointer, address) ==
      Result::Success)
    return true;
  return state.properties().pageable_memory_access && device_of_pointer(pointer) < 0;
}

std::atomic<std::uint64_t> frees{0};

} // namespace

void forget_reachable() { frees.fetch_add(1, std::memory_order_relaxed); }

bool is_reachable(const void* pointer, Device device) {
  thread_local std::uint64_t known[slots], seen = 0;
  if (const std::uint64_t now = frees.load(std::memory_order_relaxed); now != seen) {
    std::fill(std::begin(known), std::end(known), 0);
    seen = now;
  }
  const std::uint64_t tag = tag_of(pointer, device);
  std::uint64_t& slot = known[(tag >> 6 ^ tag >> 14 ^ tag) % slots];
  if (slot == tag && tag != 0) return true;
  if (!ask(pointer, device)) return false;
  slot = tag;
  return true;
}

std::string why_unreachable(const void* pointer, Device device) {
  const int owner = device_of_pointer(pointer);
  const std::string where = owner < 0 ? "the host" : "cuda:" + std::to_string(owner),
                    here = to_string(device);
  const std::string what = "memory of " + where + ", which kernels on " + here + " do not reach; ";
  return what + (device.is_cpu() ? "launch on a stream of " + where + ", or copy it to the host"
                                 : "copy it to a Buffer of " + here);
}

} // namespace kiln::cuda
