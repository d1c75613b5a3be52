// Comparisons of column numbers with a view's extent, as in where(col + arange(BN) < x.cols(), t, 0).
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <optional>

namespace kiln::cpu {

// Whether offset + start + i < extent, for each element i of a tile of one axis (in 64 bits; the sums may
// wrap).
struct ExtentCheck {
  const ir::Value* offset = nullptr; // null: 0
  std::int64_t start = 0;
  const ir::Value* extent = nullptr; // never negative
};

// What `op` compares, if it is of this kind.
std::optional<ExtentCheck> extent_check(const ir::Op& op);

} // namespace kiln::cpu
