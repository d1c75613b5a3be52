// Pushes and pops contexts of the driver.
#include <kiln/jit/runtime/cuda/current.h>

namespace kiln::cuda {

namespace {

// The context of the innermost scope on this thread. Within the scope, no other code changes the current
// context.
thread_local ContextHandle entered = nullptr;

} // namespace

Current::Current(DeviceState& device) : driver_(device.driver()), outer_(entered) {
  device.check_usable();
  ContextHandle context = device.context();
  if (context == outer_) return;
  ContextHandle callers = nullptr;
  device.check(driver_.cuCtxGetCurrent(&callers), "cuCtxGetCurrent");
  if (callers != context) {
    device.check(driver_.cuCtxPushCurrent(context), "cuCtxPushCurrent");
    pushed_ = true;
  }
  entered = context;
}

Current::~Current() {
  entered = outer_;
  ContextHandle ours = nullptr;
  if (pushed_) driver_.cuCtxPopCurrent(&ours); // cannot fail, because the push succeeded
}

} // namespace kiln::cuda
