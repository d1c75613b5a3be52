// Predicts whether a stream's next launch is followed directly by a wait, so that its worker may doze.
// Internal.
//
// The answer is yes after a number of such launches in a row. A launch without a wait ends the row; the next
// row must then be twice as long, so that mixed patterns cause few wrong answers.
//
// Called from any thread, without locks: these are hints, and lost updates do not matter.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <type_traits>

namespace kiln::detail {

class WaitHabit {
public:
  bool at_once() const { return get(row_) >= get(needed_); }

  // Before a launch. Returns whether this is the first launch since the last wait, so that launched() must
  // follow.
  bool launching() {
    const bool first = get(launched_at_) == 0;
    if (!first) not_waited();
    return first;
  }
  // After the first launch, and after waking a thread, which takes long itself.
  void launched() { set(launched_at_, now()); }

  // At the beginning of a wait.
  void waited() {
    const auto launched = get(launched_at_);
    if (launched == 0) return; // the launches before were already waited for
    set(launched_at_, 0);
    if (now() - launched > longest) return not_waited();
    if (!at_once()) set(row_, get(row_) + 1);
  }

  // If the worker was dozing, this was a wrong guess.
  void not_waited() {
    if (at_once()) set(needed_, std::min(2 * get(needed_), most_needed));
    if (get(row_)) set(row_, 0);
  }

  void reset() { set(row_, 0), set(launched_at_, 0); }

private:
  using Clock = std::chrono::steady_clock;
  // A wait that begins later than this after the launch does not count as direct.
  static constexpr Clock::rep longest = Clock::duration(std::chrono::microseconds(5)).count();
  static constexpr int least_needed = 16, most_needed = 4096;

  static Clock::rep now() { return Clock::now().time_since_epoch().count(); }
  template <class T> static T get(const std::atomic<T>& x) { return x.load(std::memory_order_relaxed); }
  template <class T> static void set(std::atomic<T>& x, std::type_identity_t<T> value) {
    x.store(value, std::memory_order_relaxed);
  }

  std::atomic<int> row_{0}; // at most needed_
  std::atomic<int> needed_{least_needed};
  std::atomic<Clock::rep> launched_at_{0}; // time of the first launch since the last wait, or 0
};

} // namespace kiln::detail
