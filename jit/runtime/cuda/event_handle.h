// Owns an event of the driver. Internal: Event uses it.
#pragma once

#include <kiln/jit/runtime/cuda/device_state.h>

namespace kiln::cuda {

class Queue;

// Thread-safe except for construction and destruction.
class EventHandleOwner {
public:
  explicit EventHandleOwner(DeviceState& device);
  ~EventHandleOwner();
  EventHandleOwner(const EventHandleOwner&) = delete;
  EventHandleOwner& operator=(const EventHandleOwner&) = delete;

  DeviceState& device() const { return device_; }
  EventHandle handle() const { return handle_; }

  // Whether all commands before the record have finished, or the device has failed.
  bool done() const;
  // Waits for that. Throws the device's sticky error.
  void synchronize() const;
  // Milliseconds between two finished events of one device.
  double ms_since(const EventHandleOwner& begin) const;

private:
  DeviceState& device_;
  EventHandle handle_ = nullptr;
};

} // namespace kiln::cuda
