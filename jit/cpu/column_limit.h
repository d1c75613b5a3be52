// Comparisons that hold up to some column and fail after it: where(col + arange(BN) < x.cols(), t, 0), or the
// mask of causal attention, expand<0>(n + arange(KEYS)) <= expand<1>(m + arange(QUERIES)).
#pragma once

#include <kiln/dsl/ir/ir.h>

#include <optional>

namespace kiln::cpu {

// The elements of an i64 tile that grow by one along one axis, or do not grow: offset + start + index, in 64
// bits that may wrap.
struct Numbers {
  const ir::Value* offset = nullptr; // scalar; null: 0
  std::int64_t start = 0;
  int axis = -1; // of the tile that is compared; -1: none
};

// numbers < bound, or numbers <= bound; they grow along different axes.
struct ColumnLimit {
  Numbers numbers, bound;
  bool inclusive = false;
};

// What `op` compares, if it is of this kind.
std::optional<ColumnLimit> column_limit(const ir::Op& op);

} // namespace kiln::cpu
