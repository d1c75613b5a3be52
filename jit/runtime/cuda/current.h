// Makes a device's context current for a scope. Not for users.
#pragma once

#include <kiln/jit/runtime/cuda/device_state.h>

namespace kiln::cuda {

// Every driver call on a context stands in the scope of a Current. Whatever context the caller of Kiln had
// on this thread is current again afterwards. Scopes nest; an inner one of the same device costs a
// comparison. Construction throws what DeviceState::check_usable and context() throw.
class Current {
public:
  explicit Current(DeviceState& device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

private:
  const Driver& driver_;
  ContextHandle outer_; // of the enclosing scope of this thread
  bool pushed_ = false;
};

// For destructors: calls `release` in the scope of a Current, or not at all where the device cannot be used
// (its context has gone and what it owned with it, or this is a forked child).
template <class F> void clean_up(DeviceState& device, F release) noexcept {
  if (!device.usable()) return;
  try {
    Current current(device);
    release();
  } catch (...) { // the context cannot be made current: nothing in it can be released
  }
}

} // namespace kiln::cuda
