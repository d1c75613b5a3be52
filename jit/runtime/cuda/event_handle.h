// A driver's event. Not for users: Event stands on it.
#pragma once

#include <kiln/jit/runtime/cuda/device_state.h>

namespace kiln::cuda {

class Queue;

// Thread-safe, but for construction and destruction.
class EventHandleOwner {
public:
  explicit EventHandleOwner(DeviceState& device);
  ~EventHandleOwner();
  EventHandleOwner(const EventHandleOwner&) = delete;
  EventHandleOwner& operator=(const EventHandleOwner&) = delete;

  DeviceState& device() const { return device_; }
  EventHandle handle() const { return handle_; }

  // True when all commands before the record have finished, and when the device has failed.
  bool done() const;
  // Waits for that; throws the device's sticky error.
  void synchronize() const;
  // Between two done events of one device.
  double ms_since(const EventHandleOwner& begin) const;

private:
  DeviceState& device_;
  EventHandle handle_ = nullptr;
};

} // namespace kiln::cuda
