// Shortens long tests under a sanitizer, where they take ten to forty times as long, and with
// KILN_TEST_FEW_ROUNDS=1, for runs that only record kernels: a quarter of the cases or rounds is run there.
#pragma once

#include <kiln/jit/base/sanitized.h>

#include <cstdlib>

namespace kiln::test {

// One of how many cases is run.
inline unsigned one_of() {
  static const unsigned n = sanitized || std::getenv("KILN_TEST_FEW_ROUNDS") ? 4 : 1;
  return n;
}

// Whether to skip one of many cases, chosen at random.
template <class Generator> bool left_out(Generator& random) { return random() % one_of() != 0; }

// The number of rounds of random data to run out of `count`, at least one.
template <class Count> Count rounds(Count count) {
  const auto share = static_cast<Count>(count / static_cast<Count>(one_of()));
  return count == 0 || share > 0 ? share : 1;
}

} // namespace kiln::test
