// Tests the emulated link and schedules: their check, and their forecast against closed forms and longest
// paths.
#include "test_seed.h"

#include <kiln/collectives/schedule/compute_model.h>
#include <kiln/collectives/schedule/cost_model.h>
#include <kiln/collectives/schedule/forecast.h>
#include <kiln/dsl/error.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

using namespace kiln;
using namespace kiln::collectives;

namespace {

Shards equal_shards(int ranks, std::int64_t rows) { return Shards::even(ranks * rows, ranks); }
constexpr RowBytes thousand{1000, 1000, 1000};

// Each row takes as long; the sum of a row takes a tenth.
StepCost cost_of_rows(const Schedule& schedule, Nanoseconds row) {
  return [&schedule, row](const Step& s) {
    const Nanoseconds all = schedule.rows(s).count() * row;
    return s.kind == Step::Kind::reduce ? all / 10 : all;
  };
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

TEST_CASE("shards and chunks cover all rows once") {
  std::mt19937_64 random(test::fresh_seed());
  for (int round = 0; round < 50; ++round) {
    std::vector<std::int64_t> rows;
    for (int r = 0; r <= round % 7; ++r)
      rows.push_back(static_cast<std::int64_t>(random() % 20));
    const Shards shards = Shards(rows).in_chunks({4, 2, 1, 1});
    std::int64_t at = 0;
    for (int owner = 0; owner < shards.ranks(); ++owner) {
      CHECK(shards.rows(owner).begin == at);
      for (int i = 0; i < shards.chunks(); ++i) {
        CHECK(shards.rows(Chunk{owner, i}).begin == at);
        at = shards.rows(Chunk{owner, i}).end;
      }
      CHECK(shards.rows(owner).end == at);
    }
    CHECK(at == shards.rows());
  }
  CHECK(Shards::even(100, 3).rows(1) == Rows{33, 66});
  CHECK_THROWS_AS(Shards({3, -1}), UserError);
  CHECK_THROWS_AS(Shards::even(5, 0), UserError);
  CHECK_THROWS_AS(Shards({3}).in_chunks({1, 0}), UserError);
}

TEST_CASE("the forecasts of even gathers are those of the closed forms") {
  for (int ranks : {1, 2, 3, 4, 8})
    for (int chunks : {1, 2, 4, 16})
      for (Nanoseconds byte : {1, 4}) { // nanoseconds a byte
        const Shards shards = equal_shards(ranks, 64);
        const LinkModel link{.bytes_per_second = 1e9 / static_cast<double>(byte), .latency = 700};
        const Nanoseconds row = 2000, shard = 64 * row, sent = 64 * 1000 * byte;
        INFO(ranks << " ranks, " << chunks << " chunks, " << byte << " ns a byte");
        const Schedule serial = serial_gather(shards, thousand),
                       ring = ring_gather(shards.in_chunks(chunks), thousand);
        validate(serial), validate(ring);
        CHECK(forecast(serial, link, cost_of_rows(serial, row)).makespan ==
              (ranks - 1) * (sent + 700) + ranks * shard);
        // Communication is hidden behind computation, or the last chunk is computed after it has arrived. A
        // rank passes on a chunk when it has arrived, and its port is busy for a shard's other chunks
        // meanwhile.
        const Nanoseconds chunk = sent / chunks, hop = chunks > 1 ? std::max(sent, chunk + 700) : sent + 700;
        const Nanoseconds arrives = ranks > 1 ? (ranks - 2) * hop + sent + 700 : 0;
        const Nanoseconds makespan = forecast(ring, link, cost_of_rows(ring, row)).makespan;
        if (ranks == 1 || sent + 700 <= shard / chunks)
          CHECK(makespan == ranks * shard); // the first chunk of each shard is there when it is needed
        else if (sent >= shard + 700)
          CHECK(makespan == arrives + shard / chunks);
      }
}

TEST_CASE("the forecasts of even scatters and all-reduces are those of the closed forms") {
  for (int ranks : {1, 2, 3, 4, 8})
    for (Nanoseconds byte : {1, 4}) {
      const Shards shards = equal_shards(ranks, 64);
      const LinkModel link{.bytes_per_second = 1e9 / static_cast<double>(byte), .latency = 700};
      const Nanoseconds row = 2000, shard = 64 * row, sent = 64 * 1000 * byte, sums = shard / 10;
      INFO(ranks << " ranks, " << byte << " ns a byte");
      const auto makespan = [&](const Schedule& s) {
        validate(s);
        return forecast(s, link, cost_of_rows(s, row)).makespan;
      };
      const Nanoseconds one_way = ranks > 1 ? (ranks - 1) * sent + 700 : 0;
      CHECK(makespan(serial_scatter(shards, thousand)) == ranks * shard + one_way + sums);
      CHECK(makespan(serial_all_reduce(shards, thousand)) == ranks * shard + 2 * one_way + sums);
      // What is computed first is sent while the rest is computed, if that takes longer.
      if (sent + 700 <= shard) {
        CHECK(makespan(direct_scatter(shards, thousand)) == ranks * shard + sums);
        CHECK(makespan(two_shot_all_reduce(shards, thousand)) == ranks * shard + sums + one_way);
      }
      // Without computation.
      const ScheduleOptions none{.computes = false};
      CHECK(makespan(direct_scatter(shards, thousand, none)) == one_way + sums);
      CHECK(makespan(one_shot_all_reduce(shards, thousand, none)) ==
            (ranks > 1 ? ranks * (ranks - 1) * sent + 700 : 0) + sums); // the last chunk's
    }
}

TEST_CASE("the alpha-beta model gives the times of the schedules that it describes") {
  const LinkModel link{.bytes_per_second = 1e9, .latency = 700};
  for (int ranks : {2, 3, 4, 8}) {
    const Shards shards = equal_shards(ranks, 64);
    const std::int64_t bytes = shards.rows() * 1000;
    const ScheduleOptions none{.computes = false};
    const auto free = [](const Step&) -> Nanoseconds { return 0; };
    const auto makespan = [&](const Schedule& s) { return forecast(s, link, free).makespan; };
    using enum CollectiveKind;
    CHECK(estimate(link, ranks, all_gather, bytes, Algorithm::ring) ==
          makespan(ring_gather(shards, thousand, none)));
    CHECK(estimate(link, ranks, all_gather, bytes, Algorithm::direct) ==
          makespan(direct_gather(shards, thousand, none)));
    CHECK(estimate(link, ranks, reduce_scatter, bytes, Algorithm::direct) ==
          makespan(direct_scatter(shards, thousand, none)));
    CHECK(estimate(link, ranks, all_reduce, bytes, Algorithm::direct) ==
          std::min(makespan(two_shot_all_reduce(shards, thousand, none)),
                   makespan(one_shot_all_reduce(shards, thousand, none))));
    for (CollectiveKind kind : {all_gather, reduce_scatter, all_reduce, broadcast, reduce, all_to_all})
      for (Algorithm a : {Algorithm::ring, Algorithm::tree, Algorithm::recursive_halving, Algorithm::direct})
        CHECK(estimate(link, ranks, kind, bytes) <= estimate(link, ranks, kind, bytes, a));
  }
  CHECK(estimate(link, 1, CollectiveKind::all_reduce, 1000) == 0);
}

TEST_CASE("forecasts are longest paths") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const auto up_to = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n + 1));
  };
  for (int round = 0; round < 100; ++round) {
    std::vector<std::int64_t> rows;
    const auto ranks = 1 + up_to(7);
    for (std::int64_t i = 0; i < ranks; ++i)
      rows.push_back(up_to(100)); // some are empty
    std::vector<int> weights;
    for (std::int64_t i = 0; i <= up_to(7); ++i)
      weights.push_back(static_cast<int>(1 + up_to(3)));
    const Shards shards = Shards(rows).in_chunks(weights);
    const LinkModel link{.bytes_per_second = 1e8 + static_cast<double>(up_to(1000000000)),
                         .latency = up_to(5000)};
    const RowBytes bytes{1 + up_to(2000), 1 + up_to(2000), 1 + up_to(2000)};
    for (const Schedule& s :
         {serial_gather(shards, bytes), ring_gather(shards, bytes), direct_gather(shards, bytes),
          serial_scatter(shards, bytes), direct_scatter(shards, bytes), serial_all_reduce(shards, bytes),
          two_shot_all_reduce(shards, bytes), one_shot_all_reduce(shards, bytes)}) {
      validate(s);
      const StepCost cost = cost_of_rows(s, 1 + up_to(1000));
      const Forecast f = forecast(s, link, cost);
      INFO(name_of(s.exchange) << ", " << s.name << " of " << ranks << " ranks with " << shards.chunks()
                               << " chunks");
      CHECK(f.makespan == longest_path(s, link, cost, f));
      CHECK(f.makespan >= std::max(f.computation, f.communication));
    }
  }
}

TEST_CASE("a schedule that is wrong is found") {
  const Shards shards = equal_shards(3, 10).in_chunks(2);
  const auto error_of = [](const Schedule& s) {
    try {
      validate(s);
    } catch (const InternalError& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  CHECK(error_of(ring_gather(shards, thousand)) == "none");
  Schedule s = ring_gather(shards, thousand);
  s.steps[3].after = {4};
  CHECK_THAT(error_of(s), Catch::Contains("step 3: it waits for a later step"));
  s = ring_gather(shards, thousand);
  s.steps[1].to = 3;
  CHECK_THAT(error_of(s), Catch::Contains("step 1: there is no such rank or chunk"));
  s = ring_gather(shards, thousand);
  s.steps.back().after.clear();
  CHECK_THAT(error_of(s), Catch::Contains("it does not wait for the piece"));
  s = ring_gather(shards, thousand);
  s.steps.push_back(s.steps.back());
  CHECK_THAT(error_of(s), Catch::Contains("the chunk is computed twice"));
  s = ring_gather(shards, thousand);
  s.steps.insert(s.steps.begin(), s.steps.front());
  CHECK_THAT(error_of(s), Catch::Contains("the rank has the piece already"));
  s = ring_gather(shards, thousand);
  s.steps.pop_back();
  CHECK_THAT(error_of(s), Catch::Contains("in the end, rank 2 has not computed a chunk"));
  s = direct_scatter(shards, thousand);
  for (Step& step : s.steps)
    if (step.kind == Step::Kind::reduce) step.after.clear();
  CHECK_THAT(error_of(s), Catch::Contains("it does not wait for the piece"));
  s = two_shot_all_reduce(shards, thousand);
  s.steps.pop_back();
  CHECK_THAT(error_of(s), Catch::Contains("lacks a sum"));
}

TEST_CASE("times beyond the range of the clocks are never") {
  const LinkModel dead{.bytes_per_second = 1, .latency = never, .jitter = never, .seed = 1};
  CHECK(dead.duration(0, 1, 1 << 30) == never);
  CHECK(LinkModel{.bytes_per_second = 1}.duration(0, 1, std::int64_t{1} << 40) == never);
  Ports ports(dead, 2);
  for (int i = 0; i < 3; ++i) {
    const Passage p = ports.pass(0, 1, std::int64_t{1} << 40, 100);
    CHECK((p.begin >= 100 && p.end == never && p.arrival == never));
  }
  const ComputeModel slow{.flops_per_second = 1, .bytes_per_second = 1, .launch = 5};
  CHECK(slow.product(1 << 20, 1 << 20, 1 << 20, 2) == never);
  CHECK(slow.pass(std::int64_t{1} << 40) == never);
  const Schedule ring = ring_gather(Shards::even(1 << 20, 4), {.shard = 1 << 20});
  const Forecast f = forecast(ring, dead, [](const Step&) -> Nanoseconds { return never - 1; });
  CHECK((f.makespan == never && f.computation == never && f.communication == never));
  CHECK(estimate(dead, 4, CollectiveKind::all_reduce, 1 << 20) == never);
}
