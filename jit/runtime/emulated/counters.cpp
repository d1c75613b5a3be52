// Returns copies of a device's counters.
#include <kiln/jit/runtime/emulated/counters.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/emulated/device_state.h>

namespace kiln {

namespace {

emulated::DeviceState& counting(Device device, std::source_location here) {
  if (device.is_emulated())
    if (auto& state = emulated::DeviceState::get(device.index()); state.options().counters) return state;
  throw UserError(here, to_string(device) +
                            " has no counters; make it with Device::emulated(arch, {.counters = true})");
}

} // namespace

DeviceCounters counters_of(Device device, std::source_location here) {
  emulated::DeviceState& state = counting(device, here);
  return {state.with_gpu([&](emulator::Gpu&) { return state.counters().kernels(); })};
}

void clear_counters(Device device, std::source_location here) {
  emulated::DeviceState& state = counting(device, here);
  state.with_gpu([&](emulator::Gpu&) { state.counters().clear(); });
}

} // namespace kiln
