// Defines Timeline, the clock of ranks that are threads, with the events that are due at its times.
//
//   Timeline timeline(ClockKind::virtual_time);
//   // on the thread of each rank:
//   Timeline::Participant here(timeline);
//   timeline.at(timeline.now() + 500, {n, rank},
//               {.work = [&] { copy(); }, .done = [&] { return arrived = true; }});
//   timeline.wait([&] { return arrived; });                     // under the lock of the timeline
//   timeline.spend(2000);                                       // a computation that lasts 2 us
//
// On the wall clock, a thread of the timeline runs the events when they are due. If all events are due at
// once (Options), participants run them instead, while they wait for something: so the CPUs of the ranks move
// the ranks' data, and no other thread has to be woken. A participant first polls, and then sleeps; it is
// woken for an event that no other one runs. While no participant waits, no event runs.
//
// On the virtual clock, time stands still while any participant runs. Once all of them wait, the last one to
// wait advances the clock to the time of the next event and runs it, again and again, until a participant can
// go on. So virtual times depend only on what the ranks do, and not on the computer. Events at the same time
// run in the order of their EventOrder.
//
// Thread-safe. The functions that events call must not throw.
#pragma once

#include <kiln/collectives/schedule/nanoseconds.h>
#include <kiln/dsl/api.h>

#include <atomic>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

enum class ClockKind : std::uint8_t { wall, virtual_time };

// The order of events at the same time: by number, then by rank, and then by the call they belong to, of which
// equal ranks of several communicators can have one each. Equal ones run in the order in which they have been
// added, which on the virtual clock must not depend on which thread is faster.
struct EventOrder {
  std::uint64_t number = 0;
  int rank = 0;
  std::uint64_t sequence = 0, members = 0; // of the call
  auto operator<=>(const EventOrder&) const = default;
};

struct Event {
  // Runs first, with the lock of the timeline; if it returns false, the others do not run.
  std::function<bool()> begins = {};
  std::function<void()> work = {}; // runs next, without the lock
  // Runs last, with the lock; returns whether the condition of a wait may now be true.
  std::function<bool()> done;
  bool is_long = false; // whether other participants should run the next events meanwhile
};

// How a wait ended: the condition holds; the deadline has passed; or, on the virtual clock, all participants
// wait, and there is no event that could change that.
enum class WaitEnd : std::uint8_t { ready, late, stuck };

class Timeline {
public:
  struct Options {
    bool later_events = true;    // whether there are events on the wall clock that are not due at once
    Nanoseconds active_wait = 0; // how long a participant polls before it sleeps, if there are none
    int most_helpers = 1;        // participants that are woken to run events at one time, at most
  };
  explicit Timeline(ClockKind kind) : Timeline(kind, Options()) {}
  Timeline(ClockKind kind, Options options);
  ~Timeline(); // participants must have been destroyed before; events that have not run are dropped
  Timeline(const Timeline&) = delete;

  // Makes the calling thread a participant, for which the virtual clock waits.
  class Participant {
  public:
    explicit Participant(Timeline& timeline);
    ~Participant();
    Participant(const Participant&) = delete;

  private:
    Timeline& timeline_;
  };

  ClockKind kind() const { return kind_; }
  Nanoseconds now() const;        // since the timeline was constructed
  Nanoseconds now_locked() const; // the same for functions that have the lock

  // Schedules an event at `time`, or as soon as possible if that has passed. Functions that have the lock,
  // such as `done` of an event, must call at_locked instead.
  void at(Nanoseconds time, EventOrder order, Event event);
  void at_locked(Nanoseconds time, EventOrder order, Event event);

  // Waits until ready() returns true. It is called with the lock, after each event and change that may
  // matter. Only participants may wait.
  WaitEnd wait(const std::function<bool()>& ready, Nanoseconds deadline = never);
  // Runs the events that are due, if participants run events.
  void run_due();
  // Advances the virtual clock of this participant by a duration. Does nothing on the wall clock.
  void spend(Nanoseconds duration);

  // Calls change() with the lock, and then wakes threads whose conditions are now true. If change() returns
  // false, no condition is checked.
  template <class F> void change(const F& change) {
    const auto lock = take_lock();
    if constexpr (std::is_void_v<decltype(change())>) {
      change();
      wake_ready();
    } else if (change()) {
      wake_ready();
    }
  }

private:
  struct Waiter {
    const std::function<bool()>* ready;
    Nanoseconds deadline;
    bool woken = false, helps = false; // helps: it is woken to run events
    WaitEnd end = WaitEnd::ready;
    std::condition_variable wakes = {};
  };
  using Place = std::tuple<Nanoseconds, EventOrder, std::uint64_t>; // the last one distinguishes equal ones

  std::unique_lock<std::mutex> take_lock() const;
  bool participants_run_events() const { return kind_ == ClockKind::wall && !options_.later_events; }
  WaitEnd wait_and_help(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready,
                        Nanoseconds deadline);
  void poll(std::unique_lock<std::mutex>& lock, Nanoseconds until);
  void wake_helper();
  bool sleep(std::unique_lock<std::mutex>& lock, Waiter& waiter);
  void wake(Waiter& waiter, WaitEnd end);
  void wake_ready();
  void let_time_pass(std::unique_lock<std::mutex>& lock); // on the virtual clock, if no participant runs
  void run_event(std::unique_lock<std::mutex>& lock);
  void run_events(); // the thread of the wall clock

  const ClockKind kind_;
  const Options options_;
  alignas(64) std::atomic<std::uint64_t> changes_{0}; // for participants that poll, without the lock
  alignas(64) mutable std::mutex mutex_;              // guards the members below
  std::map<Place, Event> events_;
  std::vector<Waiter*> waiting_;
  Nanoseconds virtual_now_ = 0, began_ = 0;
  int running_ = 0; // participants that do not wait
  std::uint64_t added_ = 0;
  int awake_ = 0;        // participants that wait and run events or poll, or have been woken to do so
  int busy_ = 0;         // of these, those that run long events, and so no others
  bool passing_ = false; // a thread lets time pass
  bool ending_ = false;
  std::condition_variable changed_; // for the thread of the wall clock
  std::thread thread_;
};

} // namespace kiln::collectives
KILN_API_END
