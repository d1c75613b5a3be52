// Creates and queries events of the driver, and reads their times.
#include <kiln/jit/runtime/cuda/event_handle.h>

#include <kiln/jit/runtime/cuda/current.h>

namespace kiln::cuda {

EventHandleOwner::EventHandleOwner(DeviceState& device) : device_(device) {
  Current current(device);
  device.check(device.driver().cuEventCreate(&handle_, 0), "cuEventCreate"); // 0: with timing
}

EventHandleOwner::~EventHandleOwner() {
  clean_up(device_, [&] { device_.driver().cuEventDestroy(handle_); });
}

bool EventHandleOwner::done() const {
  if (device_.lost()) return true;
  Current current(device_);
  return device_.driver().cuEventQuery(handle_) != Result::NotReady;
}

void EventHandleOwner::synchronize() const {
  Current current(device_);
  device_.check(device_.driver().cuEventSynchronize(handle_), "Event::synchronize");
}

double EventHandleOwner::ms_since(const EventHandleOwner& begin) const {
  Current current(device_);
  float ms = 0;
  device_.check(device_.driver().cuEventElapsedTime(&ms, begin.handle_, handle_), "Event::elapsed_ms");
  return ms;
}

} // namespace kiln::cuda
