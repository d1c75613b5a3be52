// What long tests leave out under a sanitizer, where they take ten to forty times as long, and where they run again for what
// they record alone.
#pragma once

#include <kiln/jit/base/sanitized.h>

#include <cstdlib>

namespace kiln::test {

// Whether a quarter of the random data suffices: under a sanitizer, and with KILN_TEST_FEW_ROUNDS in the environment.
inline bool few_rounds() {
  static const bool few = sanitized || std::getenv("KILN_TEST_FEW_ROUNDS");
  return few;
}

// Whether to leave out one of many cases: of few rounds three of four, others each time.
template <class Generator> bool left_out(Generator& random) { return few_rounds() && random() % 4 != 0; }

// How many rounds of random data to do of `count`: of few rounds a quarter, at least one.
template <class Count> Count rounds(Count count) {
  return !few_rounds() || count == 0 ? count : count < 4 ? 1 : count / 4;
}

} // namespace kiln::test
