// Tests medians, their confidence intervals, and the removal of disturbed samples.
#include <kiln/autotune/measure/statistics.h>

#include <catch2/catch.hpp>

#include "test_seed.h"

#include <algorithm>
#include <random>

using namespace kiln;
using namespace kiln::tune;

TEST_CASE("the interval contains the true median with a probability of 95 % for a skewed distribution",
          "[statistics]") {
  const auto seed = test::fresh_seed();
  INFO("KILN_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> skewed(1.0);
  const double truth = std::log(2.0);
  for (std::size_t n : {6u, 7u, 12u, 25u, 100u, 1500u}) {
    int held = 0;
    const int rounds = 4000; // the required 93 % are six standard deviations below 95 %
    for (int round = 0; round < rounds; ++round) {
      std::vector<double> samples(n);
      for (double& s : samples)
        s = skewed(random);
      const Interval interval = median_interval(samples);
      held += interval.low <= truth && truth <= interval.high;
      REQUIRE(interval.low <= median_of(samples));
      REQUIRE(median_of(samples) <= interval.high);
    }
    INFO(n << " samples");
    CHECK(held >= rounds * 93 / 100);
  }
}

TEST_CASE("few samples have an interval wider than their range") {
  const Interval interval = median_interval({2.0, 1.0, 1.5});
  CHECK(interval.low == 0.5);
  CHECK(interval.high == 2.5);
  CHECK(median_interval({3.0}).low == 3.0);
  CHECK(median_of({}) == 0);
  CHECK(median_of({4.0, 1.0, 3.0, 2.0}) == 2.5);
}

TEST_CASE("disturbed samples are excluded unless most samples are disturbed") {
  const std::vector<double> samples{1, 9, 1.1, 8, 1.2};
  CHECK(undisturbed(samples, {false, true, false, true, false}) == std::vector<double>{1, 1.1, 1.2});
  CHECK(undisturbed(samples, {true, true, false, true, false}) == samples);
}
