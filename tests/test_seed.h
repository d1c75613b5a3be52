// Chooses the seed of a test's random data.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace kiln::test {

// The value of KILN_TEST_SEED, which repeats a failed run; without that variable a different seed in each
// call.
inline std::uint64_t fresh_seed() {
  const char* text = std::getenv("KILN_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

} // namespace kiln::test
