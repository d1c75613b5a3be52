// Defines Timeline, the clock of in-process ranks together with the events that happen at its times.
//
//   Timeline timeline(ClockKind::virtual_time);
//   // on the thread of each rank:
//   Timeline::Participant here(timeline);
//   timeline.at(timeline.now() + 500, {n, rank}, {.work = [&] { copy(); }, .done = [&] { arrived = true; }});
//   timeline.wait([&] { return arrived; });                     // under the lock of the timeline
//   timeline.spend(2000);                                       // a computation that lasts 2 us
//
// On the wall clock, a thread of the timeline runs the events at the system's time. On the virtual clock,
// time stands still while any participant runs. Once all of them wait, the last one to wait runs the next
// event and advances the clock to its time, until some wait is over. So virtual times depend only on what the
// ranks do, and not on the machine. Events at the same time run in the order of their EventOrder.
//
// Thread-safe. The functions that events call must not throw.
#pragma once

#include <kiln/dsl/api.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

using Nanoseconds = std::int64_t;
inline constexpr Nanoseconds never = std::numeric_limits<Nanoseconds>::max();

enum class ClockKind : std::uint8_t { wall, virtual_time };

// Of events of one time, those with the smallest number come first, and of these, that of the smallest rank.
struct EventOrder {
  std::uint64_t number = 0;
  int rank = 0;
};

struct Event {
  std::function<bool()> begins =
      {}; // runs first, with the lock of the timeline; if it returns false, that is all
  std::function<void()> work = {}; // runs then, without the lock
  std::function<void()> done;      // runs last, with the lock
};

// How a wait ended: the condition holds; the deadline has passed; or, on the virtual clock, all participants
// wait, and there is no event that could change that.
enum class WaitEnd : std::uint8_t { ready, late, stuck };

class Timeline {
public:
  explicit Timeline(ClockKind kind);
  ~Timeline(); // no participant may exist any more; events that have not run are dropped
  Timeline(const Timeline&) = delete;

  // Makes the calling thread one for which the virtual clock waits.
  class Participant {
  public:
    explicit Participant(Timeline& timeline);
    ~Participant();
    Participant(const Participant&) = delete;

  private:
    Timeline& timeline_;
  };

  ClockKind kind() const { return kind_; }
  Nanoseconds now() const;        // since the timeline was made
  Nanoseconds now_locked() const; // the same for functions that have the lock

  // Runs the event at `time`, or as soon as possible if that has passed. Must not be called by `done`
  // functions, which have the lock: they call at_locked.
  void at(Nanoseconds time, EventOrder order, Event event);
  void at_locked(Nanoseconds time, EventOrder order, Event event);

  // Waits until ready() is true, which is called with the lock, after each event and change. Only
  // participants may call it.
  WaitEnd wait(const std::function<bool()>& ready, Nanoseconds deadline = never);
  // Advances the virtual clock of this participant by a duration. Does nothing on the wall clock.
  void spend(Nanoseconds duration);

  // Calls change() with the lock, after which waiting threads look at their conditions again.
  template <class F> void change(const F& change) {
    const std::lock_guard lock(mutex_);
    change();
    wake_ready();
  }

private:
  struct Waiter {
    const std::function<bool()>* ready;
    Nanoseconds deadline;
    bool woken = false;
    WaitEnd end = WaitEnd::ready;
    std::condition_variable wakes = {};
  };
  using Place =
      std::tuple<Nanoseconds, std::uint64_t, int, std::uint64_t>; // the last one distinguishes equal ones

  void wake(Waiter& waiter, WaitEnd end);
  void wake_ready();
  void let_time_pass(std::unique_lock<std::mutex>& lock); // on the virtual clock, if no participant runs
  void run_event(std::unique_lock<std::mutex>& lock);
  void run_events(); // the thread of the wall clock

  const ClockKind kind_;
  mutable std::mutex mutex_; // guards the members below
  std::map<Place, Event> events_;
  std::vector<Waiter*> waiting_;
  Nanoseconds virtual_now_ = 0, began_ = 0;
  int running_ = 0; // participants that do not wait
  std::uint64_t added_ = 0;
  bool passing_ = false; // a thread lets time pass
  bool ending_ = false;
  std::condition_variable changed_; // for the thread of the wall clock
  std::thread thread_;
};

} // namespace kiln::collectives
KILN_API_END
