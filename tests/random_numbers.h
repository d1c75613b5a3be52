// Provides random number generators for tests, which print their seed when a check fails.
#pragma once

#include "test_seed.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <random>

namespace kiln::test {

// A generator with a fresh seed. Both ends of a range are included.
struct Random : std::mt19937_64 {
  std::uint64_t seed = fresh_seed();
  Random() { std::mt19937_64::seed(seed); }
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(*this);
  }
  double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(*this); }
};
// Has Catch2 print the seed when a check in this scope fails.
#define KILN_SEED(random) INFO("seed " << (random).seed)

// A call returns an integer from `low` to `high`, both included, from a generator that the test has seeded.
struct RandomIntegers {
  std::mt19937_64& random;

  std::int64_t operator()(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  }
};

} // namespace kiln::test
