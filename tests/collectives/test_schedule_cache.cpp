// Tests the cache of schedules, the lists with which schedules are executed, and calls of many ranks.
#include <kiln/collectives/ranks.h>
#include <kiln/collectives/schedule/schedule_cache.h>
#include <kiln/collectives/symmetric_memory.h>
#include <kiln/kiln.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

using namespace kiln;
using namespace kiln::collectives;

namespace {

void check_equal(const Schedule& a, const Schedule& b) {
  CHECK(a.name == b.name);
  CHECK(a.shards == b.shards);
  REQUIRE(a.steps.size() == b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    const Step &s = a.steps[i], &t = b.steps[i];
    CHECK((s.kind == t.kind && s.rank == t.rank && s.to == t.to && s.piece == t.piece && s.bytes == t.bytes &&
           s.chunks == t.chunks && s.after == t.after));
  }
}

} // namespace

TEST_CASE("equal arguments share a schedule, and different ones do not") {
  const Shards shards = Shards::even(30, 4);
  const auto s = cached_schedule(direct_gather, shards, {.shard = 8}, {.computes = false});
  check_equal(*s, direct_gather(shards, {.shard = 8}, {.computes = false}));
  CHECK(s == cached_schedule(direct_gather, Shards::even(30, 4), {.shard = 8}, {.computes = false}));
  CHECK(s != cached_schedule(ring_gather, shards, {.shard = 8}, {.computes = false}));
  CHECK(s != cached_schedule(direct_gather, shards, {.shard = 8}));
  CHECK(s != cached_schedule(direct_gather, shards, {.shard = 9}, {.computes = false}));
  CHECK(s != cached_schedule(direct_gather, Shards({7, 8, 8, 7}), {.shard = 8}, {.computes = false}));
  CHECK(s != cached_schedule(direct_gather, shards.in_chunks(2), {.shard = 8}, {.computes = false}));
  CHECK(cached_schedule(two_shot_all_reduce, shards, {.partial = 4, .sum = 2}) !=
        cached_schedule(two_shot_all_reduce, shards, {.partial = 4, .sum = 2}, {.uses_sums = true}));
  CHECK(cached_schedule(two_shot_all_reduce, shards, {.partial = 4, .sum = 2}) !=
        cached_schedule(two_shot_all_reduce, shards, {.partial = 2, .sum = 4}));

  const std::vector<std::int64_t> bytes{0, 3, 5, 0};
  const auto t = cached_all_to_all(2, bytes);
  check_equal(*t, direct_all_to_all(2, bytes));
  CHECK(t == cached_all_to_all(2, bytes));
  CHECK(t != cached_all_to_all(2, {0, 5, 3, 0}));
}

TEST_CASE("threads that need a schedule at the same time get the same one") {
  const Shards shards = Shards::even(1234567, 48);
  std::vector<std::shared_ptr<const PreparedSchedule>> got(8);
  std::vector<std::thread> threads;
  for (auto& mine : got)
    threads.emplace_back([&] { mine = cached_schedule(direct_scatter, shards, {.partial = 4}); });
  for (std::thread& thread : threads)
    thread.join();
  for (const auto& mine : got)
    CHECK(mine == got[0]);
}

TEST_CASE("the cache of schedules is bounded, and keeps those that are used") {
  const Shards shards = Shards::even(64, 64);
  const auto of_bytes = [&](std::int64_t bytes) {
    return cached_schedule(direct_gather, shards, {.shard = bytes}, {.computes = false});
  };
  const auto used = of_bytes(1), unused = of_bytes(2);
  for (std::int64_t bytes = 3; bytes < 90; ++bytes) {
    of_bytes(bytes);
    CHECK(of_bytes(1) == used);
    CHECK(cached_steps() <= std::size_t{1} << 18);
  }
  CHECK(of_bytes(2) != unused);
}

TEST_CASE("the cache of schedules drops those without steps, too") {
  const auto of_rows = [](std::int64_t rows) {
    return cached_schedule(direct_gather, Shards::even(rows, 1), {.shard = 3}, {.computes = false});
  };
  const std::weak_ptr<const PreparedSchedule> first = of_rows(1);
  REQUIRE(first.lock()->steps.empty());
  for (std::int64_t rows = 2; rows < 20'000; ++rows)
    of_rows(rows);
  CHECK(first.expired());
}

TEST_CASE("the lists of a prepared schedule are those of its steps") {
  const Shards shards = Shards({5, 0, 3, 4}).in_chunks(3);
  const RowBytes bytes{.shard = 8, .partial = 4, .sum = 2};
  for (const ScheduleFunction build : {serial_gather, ring_gather, direct_gather, serial_scatter,
                                       direct_scatter, two_shot_all_reduce, one_shot_all_reduce}) {
    const PreparedSchedule s(build(shards, bytes, {}));
    std::int64_t sent = 0;
    std::vector<std::vector<int>> computes(4), first(4), followers(s.steps.size());
    std::vector<int> puts(4);
    for (std::size_t i = 0; i < s.steps.size(); ++i) {
      const Step& step = s.steps[i];
      const bool put = step.kind == Step::Kind::put;
      const int number = static_cast<int>(i);
      for (int before : step.after)
        followers[static_cast<std::size_t>(before)].push_back(number);
      for (int rank = 0; rank < 4; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        const bool takes_part = step.rank == rank || (put && step.to == rank);
        if (takes_part && put) ++puts[r];
        if (takes_part && !put) computes[r].push_back(number);
        if (takes_part && step.after.empty()) first[r].push_back(number);
      }
      sent += step.bytes;
    }
    CHECK(s.graph.bytes() == sent);
    for (std::size_t i = 0; i < s.steps.size(); ++i) {
      const auto list = s.graph.followers(static_cast<int>(i));
      CHECK(std::vector<int>(list.begin(), list.end()) == followers[i]);
    }
    for (int rank = 0; rank < 4; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      CHECK(s.graph.of(rank).computes == computes[r]);
      CHECK(s.graph.of(rank).first == first[r]);
      CHECK(s.graph.of(rank).puts == puts[r]);
    }
  }
}

TEST_CASE("calls of many ranks have the right results, and repeated ones build no schedules") {
  for (const ClockKind clock : {ClockKind::wall, ClockKind::virtual_time})
    for (int ranks : {1, 2, 3, 8, 64}) {
      RanksOptions options{.ranks = ranks, .clock = clock};
      if (clock == ClockKind::virtual_time) options.link = {.bytes_per_second = 1e9, .latency = 1000};
      std::atomic<int> wrong{0};
      std::vector<std::size_t> steps;
      run_ranks(options, [&](Communicator& comm) {
        Stream stream(comm.device());
        // The small one takes one shot, and the large one two.
        for (int round = 0; round < 3; ++round) {
          for (std::int64_t n : {257, 70001}) {
            if (n > 257 && ranks > 8) continue;
            auto x = Tensor<std::int32_t, 1>::empty({n});
            for (std::int64_t i = 0; i < n; ++i)
              x.data()[i] = static_cast<std::int32_t>(i * (comm.rank() + 1));
            comm.all_reduce(stream, x, x);
            for (std::int64_t i = 0; i < n; ++i)
              wrong += x.data()[i] != i * ranks * (ranks + 1) / 2;
          }
          auto y = Tensor<std::int32_t, 1>::empty({500});
          const Rows own = Shards::even(500, ranks).rows(comm.rank());
          auto mine = y.view().slice(0, own.begin, own.end);
          for (std::int64_t i = own.begin; i < own.end; ++i)
            y.data()[i] = static_cast<std::int32_t>(3 * i);
          comm.all_gather(stream, mine, y);
          for (std::int64_t i = 0; i < 500; ++i)
            wrong += y.data()[i] != 3 * i;
          comm.barrier();
          if (comm.rank() == 0) steps.push_back(cached_steps());
          comm.barrier();
        }
      });
      CHECK(wrong == 0);
      CHECK(steps[1] == steps[0]);
      CHECK(steps[2] == steps[0]);
    }
}

TEST_CASE("a rank that begins a call late gets what became ready for it before") {
  constexpr int ranks = 4;
  const Shards shards = Shards::even(10, ranks);
  const auto ring = cached_schedule(ring_gather, shards, {.shard = 4}, {.computes = false});
  std::atomic<int> wrong{0}; // ranks; they must not use Catch's macros, which are not thread-safe
  for (int late = 0; late < ranks; ++late)
    run_ranks({.ranks = ranks}, [&](Communicator& comm) {
      std::vector<std::int32_t> all(10, -1);
      const Rows own = shards.rows(comm.rank());
      std::iota(all.begin() + own.begin, all.begin() + own.end, static_cast<std::int32_t>(own.begin));
      CollectiveCall call{"ring", {}, {}, ring};
      call.part.place = [&](const Piece& p) -> void* { return all.data() + shards.rows(p.chunk).begin; };
      if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      comm.execute(std::move(call));
      std::vector<std::int32_t> expected(10);
      std::iota(expected.begin(), expected.end(), 0);
      wrong += all != expected;
    });
  CHECK(wrong == 0);
}

TEST_CASE("ranks that wait for each other in many calls fail at once") {
  // Each of the first half waits for all of the second half in one call, and the other way round.
  constexpr int ranks = 32;
  const auto run = [&] {
    run_ranks({.ranks = ranks, .clock = ClockKind::virtual_time}, [&](Communicator& comm) {
      const auto same = comm.split(0);
      (comm.rank() < ranks / 2 ? comm : *same).barrier({.tag = comm.rank() < ranks / 2 ? "one" : "other"});
    });
  };
  CHECK_THROWS_AS(run(), CommError);
}
