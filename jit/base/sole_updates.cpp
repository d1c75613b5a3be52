// Counts the calls that share the memory, and makes them wait for the sole one.
#include <kiln/jit/base/sole_updates.h>

#include <kiln/jit/base/futex.h>

namespace kiln {

// Never destroyed, because launches may be in flight while the process exits.
SoleUpdates& SoleUpdates::of_process() {
  static auto* updates = new SoleUpdates;
  return *updates;
}

// Makes the object while Kiln is loaded, so that no fork happens meanwhile.
[[maybe_unused]] static const SoleUpdates& made_early = SoleUpdates::of_process();

bool SoleUpdates::begin(bool may_be_sole) noexcept {
  if (may_be_sole) {
    // The count may be lost where threads race for it, which does no harm.
    const int left = left_to_share_.load(std::memory_order_relaxed);
    std::uint32_t none = 0;
    if (left > 0)
      left_to_share_.store(left - 1, std::memory_order_relaxed);
    else if (calls_.compare_exchange_strong(none, sole_call, std::memory_order_acquire))
      return true;
  }
  while (!share()) {
    left_to_share_.store(shared_after_wait, std::memory_order_relaxed);
    constexpr std::chrono::microseconds spin{20};
    if (spin_until([&] { return calls_.load(std::memory_order_relaxed) < sole_call; }, spin)) continue;
    std::uint32_t sole = sole_call;
    if (calls_.compare_exchange_strong(sole, sole_call_and_waiting, std::memory_order_relaxed) ||
        sole == sole_call_and_waiting)
      futex_wait(calls_, sole_call_and_waiting);
  }
  return false;
}

// Counts a call that shares. Returns false while there is a sole one.
bool SoleUpdates::share() noexcept {
  std::uint32_t calls = calls_.load(std::memory_order_relaxed);
  while (calls < sole_call)
    if (calls_.compare_exchange_weak(calls, calls + 1, std::memory_order_acquire)) return true;
  return false;
}

void SoleUpdates::end(bool sole) noexcept {
  if (!sole)
    calls_.fetch_sub(1, std::memory_order_release);
  else if (calls_.exchange(0, std::memory_order_release) == sole_call_and_waiting)
    futex_wake(calls_);
}

void SoleUpdates::reset_in_child() noexcept {
  calls_.store(0, std::memory_order_relaxed);
  left_to_share_.store(0, std::memory_order_relaxed);
}

} // namespace kiln
