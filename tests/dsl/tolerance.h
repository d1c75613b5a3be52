// Compares the results of two executions of a kernel: integers must be equal, floats may differ by a
// tolerance that depends on the dtype.
#pragma once

#include <kiln/dsl/ir/semantics.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <string>

namespace kiln::test {

// The tolerance relative to the largest magnitude, which allows for another order of summation; 0 for
// integers.
inline double tolerance_of(DType t) {
  switch (t) {
  case DType::F64: return 1e-11;
  case DType::F32: return 1e-5;
  case DType::F16: return 0x1p-9;
  case DType::BF16: return 0x1p-6;
  case DType::F8E4M3: return 0x1p-2;
  case DType::F8E5M2: return 0x1p-1;
  default: return 0;
  }
}

// "" if the elements agree, otherwise the first difference. The tolerance is relative to the larger of two
// elements. Because sums may cancel, it is also relative to the size `term` of their terms, or, if that is
// not known, to a hundredth of the largest finite element.
inline std::string difference(DType t, std::span<const std::byte> found, std::span<const std::byte> expected,
                              double tolerance, double term = 0) {
  auto size = static_cast<std::size_t>(size_of(t));
  long double largest = 100 * static_cast<long double>(term);
  if (is_float(t) && term == 0)
    for (std::size_t at = 0; at + size <= expected.size(); at += size)
      if (long double v = std::fabs(ir::float_of(t, ir::load_cell(t, expected.data() + at)));
          std::isfinite(v))
        largest = std::max(largest, v);
  for (std::size_t at = 0; at + size <= expected.size(); at += size) {
    ir::Cell x = ir::load_cell(t, found.data() + at), y = ir::load_cell(t, expected.data() + at);
    if (x == y) continue;
    std::string where = "element " + std::to_string(at / size) + " of its memory: ";
    if (!is_float(t))
      return where + std::to_string(static_cast<std::int64_t>(x)) + ", expected " +
             std::to_string(static_cast<std::int64_t>(y));
    long double u = ir::float_of(t, x), v = ir::float_of(t, y);
    if ((std::isnan(u) && std::isnan(v)) || u == v) continue;
    if (std::fabs(u - v) <= tolerance * std::max({std::fabs(u), std::fabs(v), largest / 100})) continue;
    return where + std::to_string(u) + ", expected " + std::to_string(v);
  }
  return {};
}

} // namespace kiln::test
