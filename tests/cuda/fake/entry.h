// Declares functions that the fake driver's entry points share.
#pragma once

#include "fake_state.h"

#include <functional>
#include <memory>

namespace fake {

using namespace kiln::cuda;

#define ENTER(NEEDS_CONTEXT)                                                                                 \
  if (Result entered = enter(__func__, NEEDS_CONTEXT); entered != Result::Success) return entered

inline State& state() { return State::get(); }
inline Result lost(const Context& context) { return static_cast<Result>(context.lost.load()); }
inline void* memory(DevicePointer pointer) { return reinterpret_cast<void*>(pointer); }

// Null means the default stream of the current device.
Stream& stream_of(StreamHandle handle);
// Queues a command, which does not run if the device is lost.
Result push(StreamHandle handle, std::function<void()> command);

} // namespace fake
