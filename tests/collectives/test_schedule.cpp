// Tests the emulated link and schedules: their check, and their forecast against closed forms and longest
// paths.
#include "test_seed.h"

#include <kiln/collectives/schedule.h>
#include <kiln/dsl/error.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

using namespace kiln;
using namespace kiln::collectives;

namespace {

Shards equal_shards(int ranks, std::int64_t rows) {
  return {std::vector<std::int64_t>(static_cast<std::size_t>(ranks), rows), 1000};
}
// Each row takes as long.
StepCost cost_of_rows(const Shards& shards, const Schedule& schedule, Nanoseconds row) {
  return
      [&shards, row, chunks = schedule.chunks](const Step& s) { return shards.rows(s.chunk, chunks) * row; };
}

// The longest path through the graph whose edges are those of the schedule, the order of a rank's
// computations, and the order in which transfers pass the ports, as the forecast's times show it.
Nanoseconds longest_path(const Schedule& schedule, const LinkModel& link, const StepCost& cost,
                         const Forecast& forecast) {
  std::vector<std::size_t> order(schedule.steps.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return forecast.steps[a].begin < forecast.steps[b].begin;
  });
  std::vector<Nanoseconds> begins(order.size()), frees(order.size()), ends(order.size());
  Nanoseconds last = 0;
  for (std::size_t at = 0; at < order.size(); ++at) {
    const std::size_t i = order[at];
    const Step& s = schedule.steps[i];
    const bool put = s.kind == Step::Kind::put;
    for (int before : s.after)
      begins[i] = std::max(begins[i], ends[static_cast<std::size_t>(before)]);
    for (std::size_t earlier = 0; earlier < at; ++earlier) {
      const Step& other = schedule.steps[order[earlier]];
      const bool other_put = other.kind == Step::Kind::put;
      if (put != other_put) continue;
      if (put ? s.rank == other.rank || s.to == other.to : s.rank == other.rank)
        begins[i] = std::max(begins[i], frees[order[earlier]]);
    }
    frees[i] = begins[i] + (put ? link.duration(s.rank, s.to, s.bytes) - link.latency : cost(s));
    ends[i] = frees[i] + (put ? link.latency : 0);
    last = std::max(last, ends[i]);
  }
  return last;
}

} // namespace

TEST_CASE("transfers occupy a port at each end, and the latency occupies none") {
  Ports ports({.bytes_per_second = 1e9, .latency = 50}, 3);
  const Passage a = ports.pass(0, 1, 100, 0), b = ports.pass(0, 2, 200, 0), c = ports.pass(2, 1, 10, 40),
                own = ports.pass(1, 1, 1000, 7);
  CHECK((a.begin == 0 && a.end == 100 && a.arrival == 150));
  CHECK((b.begin == 100 && b.end == 300 && b.arrival == 350)); // behind a at the port of rank 0
  CHECK((c.begin == 100 && c.end == 110 && c.arrival == 160)); // behind a at that of rank 1
  CHECK((own.begin == 7 && own.arrival == 7));
}

TEST_CASE("an edge may be unlike the others, and jitter depends on the seed alone") {
  const LinkModel model{.bytes_per_second = 1e9, .latency = 50, .edges = {{1, 0, 1e8, 900}}};
  CHECK(model.duration(0, 1, 100) == 150);
  CHECK(model.duration(1, 0, 100) == 1900);
  CHECK(model.duration(2, 2, 100) == 0);
  const auto arrivals = [](std::uint64_t seed) {
    Ports ports({.bytes_per_second = 1e9, .latency = 50, .jitter = 1000, .seed = seed}, 2);
    std::vector<Nanoseconds> list;
    for (int i = 0; i < 20; ++i) {
      const Passage p = ports.pass(0, 1, 100, 0);
      CHECK((p.arrival >= p.end + 50 && p.arrival <= p.end + 1050));
      list.push_back(p.arrival - p.end);
    }
    return list;
  };
  CHECK(arrivals(1) == arrivals(1));
  CHECK(arrivals(1) != arrivals(2));
}

TEST_CASE("the forecasts of even gathers are those of the closed forms") {
  for (int ranks : {1, 2, 3, 4, 8})
    for (int chunks : {1, 2, 4, 16})
      for (Nanoseconds byte : {1, 4}) { // nanoseconds a byte
        const Shards shards = equal_shards(ranks, 64);
        const LinkModel link{.bytes_per_second = 1e9 / static_cast<double>(byte), .latency = 700};
        const Nanoseconds row = 2000, shard = 64 * row, sent = 64 * 1000 * byte;
        INFO(ranks << " ranks, " << chunks << " chunks, " << byte << " ns a byte");
        const Schedule serial = serial_gather(shards), ring = ring_gather(shards, chunks);
        validate(serial), validate(ring);
        CHECK(forecast(serial, link, cost_of_rows(shards, serial, row)).makespan ==
              (ranks - 1) * (sent + 700) + ranks * shard);
        // Communication is hidden behind computation, or the last chunk is computed after it has arrived. A
        // rank passes on a chunk when it has arrived, and its port is busy for a shard's other chunks
        // meanwhile.
        const Nanoseconds chunk = sent / chunks, hop = chunks > 1 ? std::max(sent, chunk + 700) : sent + 700;
        const Nanoseconds arrives = ranks > 1 ? (ranks - 2) * hop + sent + 700 : 0;
        const Nanoseconds makespan = forecast(ring, link, cost_of_rows(shards, ring, row)).makespan;
        if (ranks == 1 || sent + 700 <= shard / chunks)
          CHECK(makespan == ranks * shard); // the first chunk of each shard is there when it is needed
        else if (sent >= shard + 700)
          CHECK(makespan == arrives + shard / chunks);
      }
}

TEST_CASE("forecasts are longest paths") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const auto up_to = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n + 1));
  };
  for (int round = 0; round < 100; ++round) {
    Shards shards{{}, 1 + up_to(2000)};
    const auto ranks = 1 + up_to(7);
    for (std::int64_t i = 0; i < ranks; ++i)
      shards.rows_of.push_back(up_to(100)); // some are empty
    const LinkModel link{.bytes_per_second = 1e8 + static_cast<double>(up_to(1000000000)),
                         .latency = up_to(5000)};
    const int chunks = static_cast<int>(1 + up_to(7));
    for (const Schedule& s :
         {serial_gather(shards), ring_gather(shards, chunks), direct_gather(shards, chunks)}) {
      validate(s);
      const StepCost cost = cost_of_rows(shards, s, 1 + up_to(1000));
      const Forecast f = forecast(s, link, cost);
      INFO(s.name << " of " << ranks << " ranks with " << chunks << " chunks");
      CHECK(f.makespan == longest_path(s, link, cost, f));
      CHECK(f.makespan >= std::max(f.computation, f.communication));
    }
  }
}

TEST_CASE("the best chunking hides most of a gather") {
  for (int ranks : {2, 4, 8})
    for (double ratio : {0.25, 0.5, 1.0, 2.0}) {
      const Shards shards = equal_shards(ranks, 1024);
      const double computation = ranks * 1024 * 1000.0, bytes = (ranks - 1) * 1024 * 1000.0;
      const LinkModel link{.bytes_per_second = bytes / (computation * ratio) * 1e9, .latency = 1000};
      const auto run = [&](const Schedule& s) { return forecast(s, link, cost_of_rows(shards, s, 1000)); };
      const Nanoseconds serial = run(serial_gather(shards)).makespan;
      double hidden = 0;
      for (int chunks = 1; chunks <= 16; ++chunks) {
        const Forecast f = run(ring_gather(shards, chunks));
        hidden = std::max(hidden, static_cast<double>(serial - f.makespan) /
                                      static_cast<double>(std::min(f.computation, f.communication)));
      }
      INFO(ranks << " ranks, communication " << ratio << " of computation");
      CHECK(hidden > 0.95);
    }
}

TEST_CASE("a schedule that is wrong is found") {
  const Shards shards = equal_shards(3, 10);
  const auto error_of = [](const Schedule& s) {
    try {
      validate(s);
    } catch (const InternalError& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  CHECK(error_of(ring_gather(shards, 2)) == "none");
  Schedule s = ring_gather(shards, 2);
  s.steps[3].after = {4};
  CHECK_THAT(error_of(s), Catch::Contains("step 3: it waits for a later step"));
  s = ring_gather(shards, 2);
  s.steps[1].to = 3;
  CHECK_THAT(error_of(s), Catch::Contains("step 1: there is no such rank"));
  s = ring_gather(shards, 2);
  s.steps.back().after.clear();
  CHECK_THAT(error_of(s), Catch::Contains("it does not wait for the chunk"));
  s = ring_gather(shards, 2);
  s.steps.push_back(s.steps.back());
  CHECK_THAT(error_of(s), Catch::Contains("the chunk is computed twice"));
  s = ring_gather(shards, 2);
  s.steps.insert(s.steps.begin(), s.steps.front());
  CHECK_THAT(error_of(s), Catch::Contains("the rank has the chunk already"));
}
