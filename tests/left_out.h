// What long tests leave out under a sanitizer, where they take ten to forty times as long.
#pragma once

#include <kiln/jit/base/sanitized.h>

namespace kiln::test {

// Whether to leave out one of many cases: under a sanitizer three of four, others each time.
template <class Generator> bool left_out(Generator& random) { return sanitized && random() % 4 != 0; }

// How many rounds of random data to do of `count`: under a sanitizer a quarter, at least one.
template <class Count> constexpr Count rounds(Count count) {
  return !sanitized || count == 0 ? count : count < 4 ? 1 : count / 4;
}

} // namespace kiln::test
