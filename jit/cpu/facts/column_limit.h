// Declares the recognition of comparisons that are true up to some column and false after it.
//
// Examples are where(col + arange(BN) < x.cols(), t, 0), and the mask of causal attention,
// expand<0>(n + arange(KEYS)) <= expand<1>(m + arange(QUERIES)).
#pragma once

#include <kiln/jit/passes/index_tiles.h>

#include <optional>

namespace kiln::cpu {

// columns < bound, or columns <= bound. Their indices are along different axes.
struct ColumnLimit {
  passes::IndexTile columns, bound; // their axes are those of the compared tile
  bool inclusive = false;
  bool in_32_bits = false;
};

// The operands of `op`, if it is such a comparison.
std::optional<ColumnLimit> column_limit(const ir::Op& op);

} // namespace kiln::cpu
