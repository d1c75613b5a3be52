// Comparisons that hold up to some column and fail after it: where(col + arange(BN) < x.cols(), t, 0), or the
// mask of causal attention, expand<0>(n + arange(KEYS)) <= expand<1>(m + arange(QUERIES)).
#pragma once

#include <kiln/jit/passes/index_tiles.h>

#include <optional>

namespace kiln::cpu {

// columns < bound, or columns <= bound; they grow along different axes.
struct ColumnLimit {
  passes::IndexTile columns, bound; // `axis`: of the tile that is compared
  bool inclusive = false;
  bool in_32_bits = false;
};

// What `op` compares, if it is of this kind.
std::optional<ColumnLimit> column_limit(const ir::Op& op);

} // namespace kiln::cpu
