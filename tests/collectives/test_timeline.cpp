// Tests the clocks of in-process ranks.
#include <kiln/collectives/threads/timeline.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

using namespace kiln::collectives;

namespace {

// Calls body(rank) on threads that take part in the timeline.
template <class F> void on_threads(Timeline& timeline, int ranks, const F& body) {
  std::vector<std::unique_ptr<Timeline::Participant>> here;
  for (int i = 0; i < ranks; ++i)
    here.push_back(std::make_unique<Timeline::Participant>(timeline));
  std::vector<std::thread> threads;
  for (int i = 0; i < ranks; ++i)
    threads.emplace_back([&, i] {
      body(i);
      here[static_cast<std::size_t>(i)].reset();
    });
  for (std::thread& thread : threads)
    thread.join();
}

} // namespace

TEST_CASE("virtual time and the order of events do not depend on the machine") {
  for (int round = 0; round < 50; ++round) {
    Timeline timeline(ClockKind::virtual_time);
    std::vector<int> order, arrived(4);
    std::vector<Nanoseconds> end(4);
    on_threads(timeline, 4, [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      for (int step = 0; step < 10; ++step) {
        timeline.at(timeline.now() + 100, {static_cast<std::uint64_t>(step), rank}, {.done = [&, rank, r] {
                      order.push_back(rank);
                      ++arrived[(r + 1) % 4];
                      return true;
                    }});
        timeline.spend(60 + 10 * rank);
        CHECK(timeline.wait([&] { return arrived[r] > step; }) == WaitEnd::ready);
      }
      end[r] = timeline.now();
    });
    CHECK(end == std::vector<Nanoseconds>(4, 1000));
    for (std::size_t i = 0; i < order.size(); ++i)
      CHECK(order[i] == static_cast<int>(i % 4));
  }
}

TEST_CASE("virtual time stands still while a participant runs") {
  Timeline timeline(ClockKind::virtual_time);
  std::atomic<bool> busy{true};
  on_threads(timeline, 2, [&](int rank) {
    if (rank == 0) {
      timeline.spend(10);
      CHECK(!busy);
      CHECK(timeline.now() == 10);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      CHECK(timeline.now() == 0);
      busy = false;
    }
  });
}

TEST_CASE("a wait ends at its deadline, and what arrives then is in time") {
  Timeline timeline(ClockKind::virtual_time);
  on_threads(timeline, 1, [&](int) {
    CHECK(timeline.wait([] { return false; }, 700) == WaitEnd::late);
    CHECK(timeline.now() == 700);
    bool arrived = false;
    timeline.at(900, {}, {.done = [&] { return arrived = true; }});
    CHECK(timeline.wait([&] { return arrived; }, 900) == WaitEnd::ready);
    CHECK(timeline.now() == 900);
  });
}

TEST_CASE("if all participants wait and nothing is to come, the waits end as stuck") {
  Timeline timeline(ClockKind::virtual_time);
  std::atomic<int> stuck{0};
  on_threads(timeline, 3, [&](int rank) {
    timeline.spend(5 * rank);
    stuck += timeline.wait([] { return false; }) == WaitEnd::stuck;
  });
  CHECK(stuck == 3);
  CHECK(timeline.now() == 10);
}

TEST_CASE("work runs without the lock, before what is done with it") {
  for (const ClockKind kind : {ClockKind::virtual_time, ClockKind::wall}) {
    Timeline timeline(kind);
    int worked = 0, done = 0;
    on_threads(timeline, 1, [&](int) {
      timeline.at(timeline.now() + 1000, {},
                  {.work =
                       [&] {
                         CHECK(done == 0);
                         timeline.now(); // takes the lock
                         worked = 1;
                       },
                   .done =
                       [&] {
                         done = worked;
                         return true;
                       }});
      CHECK(timeline.wait([&] { return done == 1; }) == WaitEnd::ready);
    });
  }
}

TEST_CASE("on the wall clock, events come in the order of their times, and waits end at deadlines") {
  Timeline timeline(ClockKind::wall);
  on_threads(timeline, 1, [&](int) {
    std::vector<int> order;
    const Nanoseconds begin = timeline.now(), millisecond = 1000000;
    timeline.at(begin + 6 * millisecond, {}, {.done = [&] {
                  order.push_back(2);
                  return true;
                }});
    timeline.at(begin + 3 * millisecond, {}, {.done = [&] {
                  order.push_back(1);
                  return true;
                }});
    CHECK(timeline.wait([&] { return order.size() == 2; }) == WaitEnd::ready);
    CHECK(order == std::vector<int>{1, 2});
    CHECK(timeline.now() >= begin + 6 * millisecond);
    const Nanoseconds deadline = timeline.now() + 2 * millisecond;
    CHECK(timeline.wait([] { return false; }, deadline) == WaitEnd::late);
    CHECK(timeline.now() >= deadline);
  });
}

TEST_CASE("events that are due at once are run by participants that wait, and none is left behind") {
  // Some thousand events from each thread, which all threads wait for in turn, with and without polling.
  for (const Nanoseconds active_wait : {0, 20000}) {
    constexpr int threads = 3, rounds = 1500;
    Timeline timeline(ClockKind::wall, {.later_events = false, .active_wait = active_wait});
    int done = 0;
    std::atomic<int> worked{0}, late{0};
    on_threads(timeline, threads, [&](int thread) {
      for (int round = 1; round <= rounds; ++round) {
        const bool is_long = (round + thread) % 7 == 0;
        timeline.at(timeline.now(), {},
                    {.work = [&] { ++worked; }, .done = [&] { return ++done > 0; }, .is_long = is_long});
        const Nanoseconds deadline = timeline.now() + 20'000'000'000;
        late += timeline.wait([&] { return done >= round * threads; }, deadline) != WaitEnd::ready;
      }
    });
    CHECK(late == 0);
    CHECK(done == threads * rounds);
    CHECK(worked == threads * rounds);
  }
}

TEST_CASE("an event runs although only others wait, and a poll runs what is due") {
  Timeline timeline(ClockKind::wall, {.later_events = false});
  bool done = false, polled = false;
  std::atomic<bool> asleep{false};
  on_threads(timeline, 2, [&](int thread) {
    if (thread == 1) {
      asleep = true;
      CHECK(timeline.wait([&] { return done; }, timeline.now() + 20'000'000'000) == WaitEnd::ready);
      return;
    }
    while (!asleep)
      std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    timeline.at(timeline.now(), {},
                {.done = [&] { return done = true; }}); // this thread does not wait for it
  });
  timeline.at(timeline.now(), {}, {.done = [&] { return polled = true; }});
  timeline.run_due();
  CHECK(polled);
  const Nanoseconds deadline = timeline.now() + 1'000'000;
  on_threads(timeline, 1,
             [&](int) { CHECK(timeline.wait([] { return false; }, deadline) == WaitEnd::late); });
  CHECK(timeline.now() >= deadline);
}

TEST_CASE("an event that comes during a long one is run by another participant") {
  Timeline timeline(ClockKind::wall, {.later_events = false, .most_helpers = 2});
  std::atomic<bool> is_long_running{false}, released{false}, in_time{false};
  bool both[2] = {};
  on_threads(timeline, 3, [&](int rank) {
    if (rank < 2) {
      timeline.wait([&] { return both[0] && both[1]; });
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // until the others sleep
    const auto until = [](const std::atomic<bool>& what) {
      for (int i = 0; i < 2000 && !what; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    timeline.at(0, {},
                {.work =
                     [&] {
                       is_long_running = true;
                       until(released);
                     },
                 .done = [&] { return both[0] = true; },
                 .is_long = true});
    until(is_long_running);
    timeline.at(0, {}, {.done = [&] { return in_time = both[1] = true; }});
    until(in_time);
    CHECK((in_time && !released));
    released = true;
  });
}

TEST_CASE("a condition is not checked after an event or a change that returns false") {
  for (const ClockKind kind : {ClockKind::virtual_time, ClockKind::wall}) {
    Timeline timeline(kind);
    on_threads(timeline, 1, [&](int) {
      int events = 0, checks = 0;
      for (int i = 0; i < 100; ++i)
        timeline.at(timeline.now() + 1000, {}, {.done = [&] { return ++events == 100; }});
      timeline.change([&] { return false; });
      CHECK(timeline.wait([&] {
        ++checks;
        return events == 100;
      }) == WaitEnd::ready);
      CHECK(checks <= 2); // before the first event, and after the last one
    });
  }
}
