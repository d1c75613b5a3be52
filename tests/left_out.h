// Shortens long tests under a sanitizer, where they take ten to forty times as long: a quarter of the cases or
// rounds is run there.
#pragma once

#include <kiln/jit/base/sanitized.h>

namespace kiln::test {

// One of how many cases is run.
inline constexpr unsigned one_of = sanitized ? 4 : 1;

// Whether to skip one of many cases, chosen at random.
template <class Generator> bool left_out(Generator& random) { return random() % one_of != 0; }

// The number of rounds of random data to run out of `count`, at least one.
template <class Count> Count rounds(Count count) {
  const auto share = static_cast<Count>(count / static_cast<Count>(one_of));
  return count == 0 || share > 0 ? share : 1;
}

} // namespace kiln::test
