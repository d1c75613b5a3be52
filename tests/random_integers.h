// Sizes and places for tests, from a generator that the test seeds.
#pragma once

#include <cstdint>
#include <random>

namespace kiln::test {

// number(low, high): any from `low` to `high`, both included.
struct RandomIntegers {
  std::mt19937_64& random;

  std::int64_t operator()(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  }
};

} // namespace kiln::test
