// Tests the guarantees of all search strategies on small random tables.
#include <kiln/autotune/search/table.h>

#include "autotune/random_table.h"
#include "test_seed.h"

#include <catch2/catch.hpp>

#include <set>

using namespace kiln;
using namespace kiln::tune;
using Catch::Matchers::Contains;

namespace {

SearchResult run(const std::string& name, const Table& table, std::uint64_t seed, int trials) {
  BoundSpace space(table.space, table.problem, Device::cpu());
  const auto strategy = make_strategy(name, test::plain_context(space, seed));
  const auto measurer = table_measurer(table);
  Budget budget;
  budget.trials = trials;
  budget.seconds = budget.chance = 0;
  return search(*strategy, *measurer, budget);
}

} // namespace

TEST_CASE("every strategy finds the best of a small table and tries no point twice") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  for (const std::string& name : strategy_names())
    for (int round = 0; round < 3; ++round) {
      CAPTURE(name, round);
      Table table = test::random_table(random, 1);
      while (table.points.size() > 600)
        table = test::random_table(random, 1);
      const auto count = static_cast<int>(table.points.size());
      const SearchResult r = run(name, table, random.bits(), count + 100);
      CHECK(r.stopped_by == "exhausted");
      REQUIRE(static_cast<int>(r.trials.size()) == count);
      CHECK(r.best_result.seconds == table.best_seconds());
      std::set<Point> tried;
      for (const Trial& t : r.trials)
        REQUIRE(tried.insert(t.point).second);
      CHECK(tried == std::set<Point>(table.points.begin(), table.points.end()));
    }
}

TEST_CASE("the run of a strategy depends only on its seed") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  const Table table = test::random_table(random, 300);
  for (const std::string& name : strategy_names()) {
    CAPTURE(name);
    auto points = [&](std::uint64_t s) {
      std::vector<Point> result;
      for (const Trial& t : run(name, table, s, 100).trials)
        result.push_back(t.point);
      return result;
    };
    CHECK(points(seed) == points(seed));
    CHECK(points(seed) != points(seed + 1));
  }
}

TEST_CASE("every strategy measures the fallback first") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  Table table = test::random_table(random, 100);
  table.space.seed(table.points[17]).seed(table.points[60]);
  for (const std::string& name : strategy_names()) {
    CAPTURE(name);
    const SearchResult r = run(name, table, seed, 16);
    CHECK(r.trials[0].point == table.points[17]);
    CHECK(r.trials[0].source == "seed");
    CHECK(r.trials[1].point == table.points[60]);
  }
}

TEST_CASE("every strategy handles tables on which everything fails, and spaces of one or no point") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  Table failing = test::random_table(random, 100);
  for (Measurement& m : failing.results) {
    m = {};
    m.status = Status::compile_error;
  }
  Table one;
  one.points = {{}};
  one.results.resize(1);
  one.results[0].seconds = 1;
  Table none;
  none.space.range("a", 1, 2).only({});
  for (const std::string& name : strategy_names()) {
    CAPTURE(name);
    SearchResult r = run(name, failing, seed, 80);
    CHECK(r.trials.size() == 80);
    CHECK_FALSE(r.best.has_value());
    r = run(name, one, seed, 80);
    CHECK(r.trials.size() == 1);
    CHECK(r.best == Point{});
    r = run(name, none, seed, 80);
    CHECK(r.stopped_by == "exhausted");
    CHECK(r.trials.empty());
  }
}

TEST_CASE("every strategy searches a space of a billion points") {
  const std::uint64_t seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Space s;
  for (int k = 0; k < 10; ++k)
    s.range("k" + std::to_string(k), 1, 8);
  for (int k = 0; k + 1 < 10; ++k)
    s.require("rule " + std::to_string(k), [a = "k" + std::to_string(k), b = "k" + std::to_string(k + 1)](
                                               const Choice& c) { return c[a] + c[b] <= 14; });
  struct Smooth final : Measurer {
    std::vector<Measurement> measure(std::span<const Point> points, const Listener& listener) override {
      std::vector<Measurement> results(points.size());
      for (std::size_t i = 0; i < points.size(); ++i) {
        results[i].seconds = 1;
        for (const std::uint16_t v : points[i])
          results[i].seconds += std::abs(v - 3);
        if (listener) listener(results[i]);
      }
      return results;
    }
    std::vector<Measurement> confirm(std::span<const Point> points) override { return measure(points, {}); }
  } measurer;
  for (const std::string& name : strategy_names()) {
    CAPTURE(name);
    BoundSpace space(s, {}, Device::cpu());
    const auto strategy = make_strategy(name, test::plain_context(space, seed));
    CHECK(std::string(strategy->name()) == name);
    Budget budget;
    budget.trials = 128;
    budget.seconds = budget.chance = 0;
    const SearchResult r = search(*strategy, measurer, budget);
    CHECK(r.trials.size() == 128);
    for (const Trial& t : r.trials)
      REQUIRE(space.contains(t.point));
    // A random point takes about 20; strategies that learn from trials must do better.
    CHECK(r.best_result.seconds < 18);
  }
}

TEST_CASE("an unknown strategy is an error that lists all strategies") {
  BoundSpace space(Space{}, {}, Device::cpu());
  CHECK_THROWS_WITH(make_strategy("clairvoyant", test::plain_context(space, 0)),
                    Contains("there is no search strategy \"clairvoyant\"; choose one of ") &&
                        Contains("random, grid"));
}
