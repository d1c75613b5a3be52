// Defines Random, a generator of random numbers for the tuner. A seed gives the same sequence on every
// machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace kiln::tune {

// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
class Random {
public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  // Returns a number in [0, n); `n` must be at least 1. The bias is below one part in 2^32 for the values of
  // `n` that occur.
  std::size_t below(std::size_t n) {
    return static_cast<std::size_t>(static_cast<unsigned __int128>(bits()) * n >> 64);
  }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; } // [0, 1)

  template <class Range> void shuffle(Range& items) {
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[below(i)]);
  }

private:
  std::uint64_t state_;
};

} // namespace kiln::tune
