// Computes gelu as dsl/SEMANTICS.md defines it, as a reference for tests.
#pragma once

#include <cmath>

namespace kiln::test {

template <class T> T exact_gelu(T x) {
  return std::isinf(x) && x < 0 ? -T(0) : x * std::erfc(-x / std::sqrt(T(2))) / 2;
}

} // namespace kiln::test
