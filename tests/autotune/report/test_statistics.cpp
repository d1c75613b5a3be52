// Tests the statistics of a report: rank correlation, recall, effects of knobs and counts of failures.
#include <catch2/catch.hpp>

#include <kiln/autotune/report/page_data.h>
#include <kiln/autotune/report/statistics.h>

#include "synthetic_run.h"
#include "test_seed.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace kiln;
using namespace kiln::tune;

TEST_CASE("tau is 1 for the same order, and -1 for the opposite one, for any values", "[report]") {
  const std::vector<double> a{1, 2, 3, 40}, b{0.1, 0.2, 0.9, 1}, c{9, 5, 4, -1};
  CHECK(kendall_tau(a, b) == Approx(1));
  CHECK(kendall_tau(a, c) == Approx(-1));
  CHECK(std::isnan(kendall_tau(a, std::vector<double>{1, 1, 1, 1})));
  CHECK(std::isnan(kendall_tau(std::vector<double>{1}, std::vector<double>{1})));
}

TEST_CASE("tau leaves out ties on both sides", "[report]") {
  // Five pairs are in order, and one is a tie in a; scipy.stats.kendalltau gives 5 / sqrt(5 * 6).
  CHECK(kendall_tau(std::vector<double>{1, 1, 2, 3}, std::vector<double>{1, 2, 3, 4}) ==
        Approx(5 / std::sqrt(30.0)));
}

TEST_CASE("tau does not depend on the order of the trials", "[report]") {
  const auto seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  Random random(seed);
  std::vector<std::pair<double, double>> pairs(60);
  for (auto& [a, b] : pairs)
    a = static_cast<double>(random.below(20)), b = a + 10 * random.uniform();
  const auto tau = [&] {
    std::vector<double> a, b;
    for (const auto& p : pairs)
      a.push_back(p.first), b.push_back(p.second);
    CHECK(kendall_tau(a, b) == Approx(kendall_tau(b, a)));
    return kendall_tau(a, b);
  };
  const double before = tau();
  CHECK(before > 0);
  CHECK(before < 1);
  random.shuffle(pairs);
  CHECK(tau() == Approx(before));
}

TEST_CASE("recall counts the fastest among those guessed to be fastest", "[report]") {
  const std::vector<double> truth{5, 1, 2, 3, 4}, guess{1, 2, 9, 3, 8};
  CHECK(top_recall(truth, guess, 1) == 0);
  CHECK(top_recall(truth, guess, 2) == 0.5);
  CHECK(top_recall(truth, guess, 5) == 1);
  CHECK(std::isnan(top_recall({}, {}, 8)));
}

TEST_CASE("a knob that determines the time explains all of it, and another explains nothing", "[report]") {
  std::vector<Trial> trials;
  for (std::uint16_t a : {0, 1, 2})
    for (std::uint16_t b : {0, 1})
      trials.push_back(test::trial({a, b}, 1e-3 * (a + 1)));
  trials.push_back(test::trial({3, 0}, 0, Status::crash, "ended"));
  const KnobEffect deciding = knob_effect(0, 5, trials), idle = knob_effect(1, 2, trials);
  CHECK(deciding.share == Approx(1));
  CHECK(idle.share == Approx(0).margin(1e-12));
  CHECK(deciding.values[2].median == Approx(3e-3));
  CHECK(idle.values[1].best == Approx(1e-3));
  CHECK(idle.values[1].median == Approx(2e-3));
  CHECK(deciding.values[3].tried == 1);
  CHECK(deciding.values[3].ok == 0);
  CHECK(deciding.values[4].tried == 0);
}

TEST_CASE("a knob's effect leaves out points that lack it", "[report]") {
  const std::vector<Trial> trials{test::trial({}, 1), test::trial({7}, 1), test::trial({0}, 1)};
  const KnobEffect effect = knob_effect(0, 2, trials);
  CHECK(effect.values[0].ok == 1);
  CHECK(effect.values[1].tried == 0);
  CHECK(std::isnan(effect.share));
}

TEST_CASE("failures are grouped by kind, most frequent first, with their most frequent messages",
          "[report]") {
  const std::vector<Trial> trials{test::trial({0}, 0, Status::timeout, "slow"),
                                  test::trial({1}, 0, Status::refused, "too large"),
                                  test::trial({2}, 0, Status::refused, "odd"),
                                  test::trial({3}, 0, Status::refused, "odd"), test::trial({4}, 1)};
  const auto kinds = failures(trials, 1);
  REQUIRE(kinds.size() == 2);
  CHECK(kinds[0].status == Status::refused);
  CHECK(kinds[0].count == 3);
  CHECK(kinds[0].messages == std::vector<std::pair<std::string, int>>{{"odd", 2}});
  CHECK(kinds[1].status == Status::timeout);
}

TEST_CASE("the parts of a search's time add up to all of it", "[report]") {
  const auto seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  const SearchResult search = test::synthetic_run(seed, 64).search;
  const TimeSplit split = time_split(search);
  CHECK(split.measure + split.compile + split.model + split.idle == Approx(search.seconds));
  CHECK(split.measure > 0);
  CHECK(split.compiler_seconds > split.compile);
}
