// Shortens long tests under a sanitizer, where they take ten to forty times as long, and where they run again
// only to record kernels.
#pragma once

#include <kiln/jit/base/sanitized.h>

#include <cstdlib>

namespace kiln::test {

// Whether a quarter of the random data is enough: under a sanitizer, and if KILN_TEST_FEW_ROUNDS is set.
inline bool few_rounds() {
  static const bool few = sanitized || std::getenv("KILN_TEST_FEW_ROUNDS");
  return few;
}

// Whether to skip one of many cases: with few rounds three of four, chosen at random, and none otherwise.
template <class Generator> bool left_out(Generator& random) { return few_rounds() && random() % 4 != 0; }

// The number of rounds of random data to run out of `count`: with few rounds a quarter, but at least one.
template <class Count> Count rounds(Count count) {
  return !few_rounds() || count == 0 ? count : count < 4 ? 1 : count / 4;
}

} // namespace kiln::test
