// Commands for the tests of streams and events.
#pragma once

#include <kiln/jit/runtime/stream.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <type_traits>

namespace test {

// Holds a command until the test opens it.
struct Gate {
  std::atomic<bool> open{false};
  static void pass(void* gate) {
    while (!static_cast<Gate*>(gate)->open)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
};

template <class F> void enqueue(kiln::Stream& stream, F f, kiln::EnqueueOptions options = {}) {
  static_assert(std::is_trivially_copyable_v<F>);
  stream.enqueue(
      [](void* payload, kiln::CommandAction action) {
        if (action == kiln::CommandAction::Run) (*static_cast<F*>(payload))();
      },
      &f, sizeof f, options);
}

} // namespace test
