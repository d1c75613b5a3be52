// Tests the search loop: when it stops, that it repeats no trial, and which finalist wins.
#include <kiln/autotune/search/table.h>

#include "autotune/random_table.h"
#include "test_seed.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

using namespace kiln;
using namespace kiln::tune;

namespace {

// Proposes points 0, 1, 2, ... of a space with one knob, each `repeats` times.
struct Counting final : Strategy {
  std::uint16_t next = 0, last = 1000;
  int repeats = 1;
  double chance = 1;
  std::size_t seen = 0;
  const char* name() const override { return "counting"; }
  std::size_t batch() const override { return 4; }
  std::vector<Proposal> propose(std::size_t most) override {
    std::vector<Proposal> batch;
    for (; batch.size() < most && next < last; ++next)
      for (int r = 0; r < repeats; ++r)
        batch.push_back({{next}, "counting", 0});
    return batch;
  }
  void observe(std::span<const Trial> trials) override { seen += trials.size(); }
  double chance_of_better() override { return chance; }
};

// Returns a function of the index as measurement.
struct Function : Measurer {
  std::function<Measurement(std::uint16_t)> measured, confirmed;
  explicit Function(Measurement (*f)(std::uint16_t)) : measured(f), confirmed(f) {}
  std::vector<Measurement> measure(std::span<const Point> points, const Listener& listener) override {
    return each(points, measured, listener);
  }
  std::vector<Measurement> confirm(std::span<const Point> points) override {
    return each(points, confirmed, {});
  }
  static std::vector<Measurement> each(std::span<const Point> points, auto& f, const Listener& listener) {
    std::vector<Measurement> results;
    for (const Point& p : points) {
      results.push_back(f(p[0]));
      if (listener && !listener(results.back())) break;
    }
    return results;
  }
};

Measurement took(double seconds) {
  Measurement m;
  m.seconds = seconds;
  return m;
}
Measurement failed(Status status) {
  Measurement m;
  m.status = status;
  return m;
}

Budget trials(int n) {
  Budget b;
  b.trials = n;
  b.seconds = 0;
  return b;
}

} // namespace

TEST_CASE("a search stops at the limit of trials") {
  Counting strategy;
  Function measurer([](std::uint16_t i) { return took(100 - i); });
  const SearchResult r = search(strategy, measurer, trials(10));
  CHECK(r.stopped_by == "trials");
  REQUIRE(r.trials.size() == 10);
  CHECK(strategy.seen == 10);
  CHECK(r.trials[9].batch == 2);
  CHECK(r.best == Point{9});
  CHECK(r.best_result.seconds == 91);
  CHECK(r.finalists.size() == 8);
  CHECK(r.finalists[0] == Point{9});
  CHECK(r.confirmed.size() == 8);
  CHECK(search(strategy, measurer, trials(0)).trials.empty());
}

TEST_CASE("a search stops within a batch when its time is up or on request, and keeps its results") {
  for (const bool by_time : {true, false}) {
    CAPTURE(by_time);
    Counting strategy; // batches of four
    Function measurer([](std::uint16_t i) {
      if (i == 1) std::this_thread::sleep_for(std::chrono::milliseconds(600));
      return took(10. - i);
    });
    Budget budget = trials(500);
    budget.confirm = 0;
    if (by_time) budget.seconds = 0.5;
    std::vector<std::size_t> heard;
    const SearchResult r = search(strategy, measurer, budget, [&](const SearchResult& so_far) {
      heard.push_back(so_far.trials.size());
      return by_time || so_far.trials.size() < 2;
    });
    CHECK(r.stopped_by == (by_time ? "seconds" : "interrupted"));
    CHECK(r.trials.size() == 2);
    CHECK(heard == std::vector<std::size_t>{1, 2}); // each as soon as it was measured
    CHECK(r.best == Point{1});
    CHECK(strategy.seen == 2);
  }
}

TEST_CASE("a search stops by patience, chance, exhaustion, seconds, interruption and loss of the device") {
  Function measurer([](std::uint16_t i) { return took(i < 5 ? 10.0 - i : 6 - 0.0001 * i); });
  {
    Counting strategy;
    Budget b = trials(500);
    b.patience = 30;
    const SearchResult r = search(strategy, measurer, b);
    CHECK(r.stopped_by == "patience");
    CHECK(r.trials.size() == 36); // the first batch that ends at least 30 trials after trial 5
    CHECK(r.best == Point{35});   // gains below 1 % do not count, but are kept
  }
  {
    Counting strategy;
    strategy.chance = 0.01;
    CHECK(search(strategy, measurer, trials(500)).stopped_by == "chance");
  }
  {
    Counting strategy;
    strategy.last = 7;
    const SearchResult r = search(strategy, measurer, trials(500));
    CHECK(r.stopped_by == "exhausted");
    CHECK(r.trials.size() == 7);
  }
  {
    Counting strategy;
    const SearchResult r = search(strategy, measurer, trials(500), [](const SearchResult& so_far) {
      CHECK(so_far.best.has_value());
      return so_far.trials.size() < 12;
    });
    CHECK(r.stopped_by == "interrupted");
    CHECK(r.trials.size() == 12);
    CHECK(r.best == Point{11});
  }
  {
    Counting strategy;
    Function slow([](std::uint16_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return took(1);
    });
    Budget b = trials(500);
    b.seconds = 0.05;
    b.confirm = 0;
    const SearchResult r = search(strategy, slow, b);
    CHECK(r.stopped_by == "seconds");
    CHECK(r.seconds >= 0.04); // there is no time for another trial
    CHECK(r.trials.size() < 40);
    CHECK(r.measure_seconds > 0.8 * r.seconds);
  }
  {
    Counting strategy;
    Function lost([](std::uint16_t i) { return i < 6 ? took(1) : failed(Status::device_lost); });
    const SearchResult r = search(strategy, lost, trials(500));
    CHECK(r.stopped_by == "device lost");
    CHECK(r.trials.size() == 12);
    CHECK(r.best == Point{0});
    CHECK(r.finalists.empty());
  }
}

TEST_CASE("a search reserves time for confirming, and confirms as many as there is time for") {
  struct Costly final : Function {
    using Function::Function;
    double each = 0;
    std::vector<double> allowed;
    double seconds_to_confirm(std::span<const Trial* const> finalists) const override {
      return each * static_cast<double>(finalists.size());
    }
    void allow(double seconds) override { allowed.push_back(seconds); }
    bool in_time = true;
    std::vector<Measurement> confirm(std::span<const Point> points) override {
      return in_time ? Function::confirm(points) : std::vector<Measurement>();
    }
  };
  Counting strategy;
  Costly measurer([](std::uint16_t i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return took(100 - i % 90);
  });
  Budget budget = trials(500);
  budget.seconds = 20.5;
  budget.spent = 20; // half a second is left
  SECTION("all finalists, if they take a small part of the time") {
    measurer.each = 0.03;
    const SearchResult r = search(strategy, measurer, budget);
    CHECK(r.stopped_by == "seconds");
    CHECK(r.confirmed.size() == 8);
    CHECK(r.trials.back().at_seconds < 20.4); // 0.24 seconds are reserved
    CHECK(r.seconds > 20.1);
    CHECK(measurer.allowed.front() > 0);
  }
  SECTION("fewer, if all would take too long") {
    measurer.each = 2;
    const SearchResult r = search(strategy, measurer, budget);
    CHECK(r.stopped_by == "seconds");
    CHECK(r.trials.size() == 1); // the time is up with the first one
    CHECK(r.confirmed.size() == 1);
  }
  SECTION("the best and the seed, even if they would take most of the time") {
    measurer.each = 15;
    const SearchResult r = search(strategy, measurer, budget);
    CHECK(r.trials.size() == 1); // the time is up with the first one
    CHECK(r.confirmed.size() == 1);
  }
  SECTION("none, if the measurer runs out of time; the best is then one that is not confirmed") {
    measurer.each = 15;
    measurer.in_time = false;
    const SearchResult r = search(strategy, measurer, budget);
    REQUIRE(r.best.has_value());
    CHECK_FALSE(r.is_confirmed(*r.best));
  }
}

TEST_CASE("a point that is proposed twice is measured once") {
  Counting strategy;
  strategy.repeats = 3;
  int measured = 0;
  Function measurer([](std::uint16_t) { return took(1); });
  measurer.measured = [&](std::uint16_t) {
    ++measured;
    return took(1);
  };
  Budget b = trials(20);
  b.confirm = 0;
  const SearchResult r = search(strategy, measurer, b);
  CHECK(measured == 20);
  std::set<Point> points;
  for (const Trial& t : r.trials)
    points.insert(t.point);
  CHECK(points.size() == 20);

  struct Stuck final : Strategy {
    const char* name() const override { return "stuck"; }
    std::vector<Proposal> propose(std::size_t) override { return {{{0}, "again", 0}}; }
    void observe(std::span<const Trial>) override {}
  } stuck;
  CHECK(search(stuck, measurer, b).stopped_by == "exhausted");
}

TEST_CASE("the winner is the fastest finalist in the confirmation") {
  Counting strategy;
  Function measurer([](std::uint16_t i) { return took(i == 3 ? 1 : 10 + i); }); // the time of 3 is an outlier
  measurer.confirmed = [](std::uint16_t i) { return took(i == 3 ? 20 : 10 + i); };
  SearchResult r = search(strategy, measurer, trials(40));
  CHECK(r.finalists[0] == Point{3});
  CHECK(r.best == Point{0});
  CHECK(r.best_result.seconds == 10);

  // All that looked best fail, so the next ones are confirmed.
  Counting again;
  measurer.confirmed = [](std::uint16_t i) { return i < 9 ? failed(Status::wrong_result) : took(10 + i); };
  r = search(again, measurer, trials(40));
  CHECK(r.best == Point{9});
  CHECK(r.finalists.size() == 16);

  Counting last;
  measurer.confirmed = [](std::uint16_t) { return failed(Status::crash); };
  r = search(last, measurer, trials(40));
  CHECK_FALSE(r.best.has_value());
  CHECK(r.finalists.size() == 40);
}

TEST_CASE("the seed is confirmed together with the winner, however slow it looked") {
  struct Seeded final : Strategy {
    std::uint16_t next = 0;
    const char* name() const override { return "seeded"; }
    std::vector<Proposal> propose(std::size_t most) override {
      std::vector<Proposal> batch;
      for (; batch.size() < most; ++next)
        batch.push_back({{next}, next == 1 || next == 2 ? "seed" : "random", 0});
      return batch;
    }
    void observe(std::span<const Trial>) override {}
  } strategy;
  // The first seed was measured while other load slowed the machine down.
  Function measurer([](std::uint16_t i) { return took(i == 1 ? 100 : 20 + i); });
  measurer.confirmed = [](std::uint16_t i) { return took(i == 1 ? 5 : 20 + i); };
  const SearchResult r = search(strategy, measurer, trials(30));
  CHECK(r.finalists.size() == 9);
  CHECK(r.best == Point{1});
  CHECK(r.best_result.seconds == 5);

  // It is confirmed only once, also if all points are.
  Seeded again;
  measurer.confirmed = [](std::uint16_t) { return failed(Status::crash); };
  const SearchResult failing = search(again, measurer, trials(30));
  CHECK_FALSE(failing.best.has_value());
  CHECK(failing.finalists.size() == 30);
  CHECK(std::count(failing.finalists.begin(), failing.finalists.end(), Point{1}) == 1);
}

TEST_CASE("if no trial works there is no winner, and failures count as trials") {
  Counting strategy;
  Function measurer([](std::uint16_t) { return failed(Status::compile_error); });
  Budget b = trials(20);
  b.patience = 4;
  b.chance = 0.9;
  strategy.chance = 0;
  const SearchResult r = search(strategy, measurer, b);
  CHECK(r.stopped_by == "trials");
  CHECK_FALSE(r.best.has_value());
  CHECK(r.finalists.empty());
}

namespace {

// Runs several searches of one table, a batch each in turn, which share their trials.
std::vector<SearchResult> search_together(const Table& table, std::size_t searches, const Budget& budget,
                                          std::uint64_t seed) {
  std::vector<SearchResult> results(searches);
  std::vector<std::vector<Trial>> published(searches);
  std::mutex mutex;
  std::barrier<> rounds(static_cast<std::ptrdiff_t>(searches));
  auto run = [&](std::size_t own) {
    BoundSpace space(table.space, table.problem, Device::cpu());
    const auto strategy = make_strategy("learned", test::plain_context(space, seed));
    const auto measurer = table_measurer(table);
    std::vector<std::size_t> heard(searches, 0);
    const auto publish = [&](const SearchResult& so_far) {
      const std::lock_guard lock(mutex);
      published[own] = so_far.trials;
      return true;
    };
    const auto listen = [&] {
      rounds.arrive_and_wait();
      const std::lock_guard lock(mutex);
      News news{{}, searches, own};
      for (std::size_t other = 0; other < searches; ++other)
        for (; other != own && heard[other] < published[other].size(); ++heard[other])
          news.trials.push_back(published[other][heard[other]]);
      return news;
    };
    results[own] = search(*strategy, *measurer, budget, publish, listen);
    rounds.arrive_and_drop();
  };
  std::vector<std::thread> threads;
  for (std::size_t own = 0; own < searches; ++own)
    threads.emplace_back(run, own);
  for (std::thread& thread : threads)
    thread.join();
  return results;
}

} // namespace

TEST_CASE("searches for one key share its points, and all find the best") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  for (std::size_t searches : {2, 3}) {
    Table table = test::random_table(random, 200);
    while (table.points.size() > 600)
      table = test::random_table(random, 200);
    CAPTURE(searches, table.points.size());
    Budget budget = trials(10000);
    budget.seconds = budget.chance = 0;
    const std::vector<SearchResult> results = search_together(table, searches, budget, random.bits());
    std::map<Point, std::size_t> measured;
    for (const SearchResult& r : results) {
      CHECK(r.stopped_by == "exhausted");
      CHECK(r.best_result.seconds == table.best_seconds());
      std::set<Point> known;
      for (const auto* all : {&r.trials, &r.shared})
        for (const Trial& trial : *all)
          REQUIRE(known.insert(trial.point).second);
      for (const Trial& trial : r.trials)
        ++measured[trial.point];
    }
    CHECK(measured.size() == table.points.size());
    // Each point is measured once, except in the first batch and where a trial was not published in time.
    std::size_t total = 0;
    for (const auto& [point, times] : measured)
      total += times;
    CHECK(2 * total <= 3 * measured.size());
  }
}

TEST_CASE("points that were left to other searches are measured if those end early") {
  Counting strategy;
  strategy.last = 100;
  Function measurer([](std::uint16_t i) { return took(200. - i); });
  std::size_t asked = 0;
  const SearchResult r = search(strategy, measurer, trials(1000), {}, [&] {
    return News{{}, ++asked < 4 ? std::size_t{2} : std::size_t{1}, 0}; // the other search ends
  });
  CHECK(r.stopped_by == "exhausted");
  CHECK(r.trials.size() == 100);
  CHECK(r.best == Point{99});
}
