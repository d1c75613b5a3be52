// Lets a thread replace atomic operations by plain loads and stores, while no other thread runs programs with
// atomic operations.
//
// Every call of an entry point whose kernel has atomic operations is between begin() and end(). The calls of
// several threads share the memory, and use atomic operations. A call whose launch has one thread may be the
// sole one instead: the calls of other launches that have atomic operations then wait until it ends. So such
// a call must end by itself: its programs never wait for others. Threads that had to wait make the next calls
// share, so that launches in several streams do not run one after the other.
#pragma once

#include <kiln/jit/base/fork.h>

#include <atomic>
#include <cstdint>

namespace kiln {

// Safe to use from all threads.
class SoleUpdates final : public ForkAware {
public:
  static SoleUpdates& of_process();

  // Returns whether the call is the sole one. Waits while another call is.
  bool begin(bool may_be_sole) noexcept;
  // `sole` is what begin() has returned.
  void end(bool sole) noexcept;

  void reset_in_child() noexcept override; // the threads that were in calls do not exist there

private:
  // The number of calls that share, or one of these.
  static constexpr std::uint32_t sole_call = 1u << 31, sole_call_and_waiting = sole_call + 1;
  static constexpr int shared_after_wait = 1000; // calls

  bool share() noexcept;

  std::atomic<std::uint32_t> calls_{0};
  std::atomic<int> left_to_share_{0};
};

} // namespace kiln
