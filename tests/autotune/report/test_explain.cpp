// Tests which knobs are found to make a config fast, on trials whose times are known functions of the knobs.
#include <kiln/autotune/report/explain.h>

#include <catch2/catch.hpp>

#include "test_seed.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace kiln::tune;

TEST_CASE("a knob that halves the time is reported with about that factor, and one without effect is not") {
  const auto seed = kiln::test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const std::vector<Knob> knobs{
      {"good", {1, 2}, {}, true}, {"none", {1, 2, 3, 4}, {}, true}, {"slow", {8, 16}, {}, true}};
  // Each combination occurs equally often; otherwise the averages that the factors are relative to would not
  // lie halfway between the values.
  SearchResult search;
  for (std::uint16_t i = 0; i < 208; ++i) {
    Trial trial;
    trial.point = {static_cast<std::uint16_t>(i % 2), static_cast<std::uint16_t>(i / 2 % 4),
                   static_cast<std::uint16_t>(i / 8 % 2)};
    trial.result.seconds = (trial.point[0] ? 1e-3 : 4e-3) * (trial.point[2] ? 1.5 : 1.0);
    search.trials.push_back(trial);
  }
  std::shuffle(search.trials.begin(), search.trials.end(), random);
  const auto factors = knob_factors(search, knobs, {1, 2, 1});
  REQUIRE(factors.size() == 2);
  CHECK(factors[0].first == "good");
  CHECK(factors[0].second == Approx(0.5).margin(0.02)); // relative to the mean of both values' logarithms
  CHECK(factors[1].first == "slow");
  CHECK(factors[1].second == Approx(std::sqrt(1.5)).margin(0.02));
}

TEST_CASE("nothing is learned from few trials, or from trials that failed") {
  SearchResult search;
  const std::vector<Knob> knobs{{"BM", {1, 2}, {}, true}};
  CHECK(knob_factors(search, knobs, {0}).empty());
  for (std::uint16_t i = 0; i < 20; ++i) {
    search.trials.push_back({.point = {static_cast<std::uint16_t>(i % 2)}, .result = {}, .source = {}});
    search.trials.back().result.status = Status::crash;
  }
  CHECK(knob_factors(search, knobs, {0}).empty());
}
