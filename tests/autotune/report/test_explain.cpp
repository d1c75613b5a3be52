// Which knobs made a config fast, where the truth is known.
#include <kiln/autotune/report/explain.h>

#include <catch2/catch.hpp>

#include "test_seed.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace kiln::tune;

TEST_CASE("a knob that halves the time is told with about that factor, and one without effect is not") {
  const auto seed = kiln::test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const std::vector<Knob> knobs{
      {"good", {1, 2}, {}, true}, {"none", {1, 2, 3, 4}, {}, true}, {"slow", {8, 16}, {}, true}};
  // Every combination as often as any other, or the means that factors are of would differ from the halves.
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
  CHECK(factors[0].second == Approx(0.5).margin(0.02)); // of the mean of both values' logarithms
  CHECK(factors[1].first == "slow");
  CHECK(factors[1].second == Approx(std::sqrt(1.5)).margin(0.02));
}

TEST_CASE("of few trials, and of those that failed, nothing is learned") {
  SearchResult search;
  const std::vector<Knob> knobs{{"BM", {1, 2}, {}, true}};
  CHECK(knob_factors(search, knobs, {0}).empty());
  for (std::uint16_t i = 0; i < 20; ++i) {
    search.trials.push_back({.point = {static_cast<std::uint16_t>(i % 2)}, .result = {}, .source = {}});
    search.trials.back().result.status = Status::crash;
  }
  CHECK(knob_factors(search, knobs, {0}).empty());
}
