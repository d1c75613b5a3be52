// Whether a stream's launches are waited for at once, by which a queue decides if its worker may doze. Not
// for users.
//
// That is so after a row of launches each of which was; one that was not ends the row. It then takes a row
// twice as long, so that a pattern of both kinds pays for its exceptions a few times and no more.
//
// Called from any thread, without locks: these are hints, and what is lost between threads does not matter.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <type_traits>

namespace kiln::detail {

class WaitHabit {
public:
  bool at_once() const { return get(row_) >= get(needed_); }

  // Before a launch: whether it is the first since the last wait, and its time is wanted.
  bool launching() {
    const bool first = get(launched_at_) == 0;
    if (!first) not_waited();
    return first;
  }
  // After the first, and after waking anybody, which takes long itself.
  void launched() { set(launched_at_, now()); }

  // At the beginning of a wait.
  void waited() {
    const auto launched = get(launched_at_);
    if (launched == 0) return; // was waited for before
    set(launched_at_, 0);
    if (now() - launched > longest) return not_waited();
    if (!at_once()) set(row_, get(row_) + 1);
  }

  // If the worker was left to doze, that was wrong.
  void not_waited() {
    if (at_once()) set(needed_, std::min(2 * get(needed_), most_needed));
    if (get(row_)) set(row_, 0);
  }

  void reset() { set(row_, 0), set(launched_at_, 0); }

private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::rep longest = Clock::duration(std::chrono::microseconds(5)).count(); // until a wait
  static constexpr int least_needed = 16, most_needed = 4096;

  static Clock::rep now() { return Clock::now().time_since_epoch().count(); }
  template <class T> static T get(const std::atomic<T>& x) { return x.load(std::memory_order_relaxed); }
  template <class T> static void set(std::atomic<T>& x, std::type_identity_t<T> value) {
    x.store(value, std::memory_order_relaxed);
  }

  std::atomic<int> row_{0}; // up to needed_
  std::atomic<int> needed_{least_needed};
  std::atomic<Clock::rep> launched_at_{0}; // the first launch since the last wait, or 0
};

} // namespace kiln::detail
