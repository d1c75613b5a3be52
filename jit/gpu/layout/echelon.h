// Implements Gaussian elimination over GF(2), by which linear layouts are inverted, composed and compared.
//
//     Echelon e;                        // solve 0b11 = x0 * 0b01 ^ x1 * 0b10
//     e.add(0b01, 1 << 0);
//     e.add(0b10, 1 << 1);
//     e.reduce(0b11)                    // {.value = 0: it is in the span, .combination = 0b11: of both}
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace kiln::gpu {

// Vectors in echelon form. Each comes with the combination of added vectors that it is.
class Echelon {
public:
  struct Row {
    std::uint64_t value, combination;
  };

  // The remainder of `v` after elimination: zero if `v` is in the span, and equal for any two vectors whose
  // difference is.
  Row reduce(std::uint64_t v, std::uint64_t combination = 0) const {
    for (const Row& row : rows_)
      if (v & std::bit_floor(row.value)) v ^= row.value, combination ^= row.combination;
    return {v, combination};
  }

  // Adds `v` unless it lies in the span already, in which case the result is false.
  bool add(std::uint64_t v, std::uint64_t combination = 0) {
    Row row = reduce(v, combination);
    if (row.value == 0) return false;
    auto at = std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) { return r.value < row.value; });
    rows_.insert(at, row);
    return true;
  }

private:
  std::vector<Row> rows_; // sorted by leading bit, the highest first
};

} // namespace kiln::gpu
