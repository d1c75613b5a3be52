// Makes a device's context current for a scope. Internal.
#pragma once

#include <kiln/jit/runtime/cuda/device_state.h>

namespace kiln::cuda {

// Every driver call that needs a context is made while a Current of its device lives. Afterwards the context
// that the calling thread had before is current again. Scopes nest; an inner one for the same device costs a
// comparison. The constructor throws what DeviceState::check_usable and context() throw.
class Current {
public:
  explicit Current(DeviceState& device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

private:
  const Driver& driver_;
  ContextHandle outer_; // the context of the enclosing scope on this thread
  bool pushed_ = false;
};

// For destructors: calls `release` in the scope of a Current. Does nothing if the device cannot be used: its
// context is gone with everything that it owned, or this process is a forked child.
template <class F> void clean_up(DeviceState& device, F release) noexcept {
  if (!device.usable()) return;
  try {
    Current current(device);
    release();
  } catch (...) { // the context cannot be made current, so nothing in it can be released
  }
}

} // namespace kiln::cuda
