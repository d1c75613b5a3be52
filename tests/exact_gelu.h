// gelu as SEMANTICS.md has it, to compare with.
#pragma once

#include <cmath>

namespace kiln::test {

template <class T> T exact_gelu(T x) {
  return std::isinf(x) && x < 0 ? -T(0) : x * std::erfc(-x / std::sqrt(T(2))) / 2;
}

} // namespace kiln::test
