// Evaluates one operation without regions on whole tiles, including accesses to memory, for the interpreter.
#pragma once

#include <kiln/dsl/ir/semantics.h>

#include <span>
#include <vector>

namespace kiln::ir {

// A value at run time: the elements of a tile in row-major order (a scalar has one), or the words of a view,
// which are its address, extents and strides.
using Cells = std::vector<Cell>;

// Element i of a tile. A scalar has the same value for every i.
inline Cell element(const Cells& cells, std::size_t i) { return cells.size() == 1 ? cells[0] : cells[i]; }

// Calls `visit(linear, index)` for every element of `extents` in row-major order.
template <class F> void for_each_index(const std::vector<std::int64_t>& extents, F&& visit) {
  std::vector<std::int64_t> index(extents.size(), 0);
  std::int64_t numel = 1;
  for (std::int64_t e : extents)
    numel *= e;
  for (std::int64_t linear = 0; linear < numel; ++linear) {
    visit(static_cast<std::size_t>(linear), index);
    for (std::size_t axis = extents.size(); axis-- > 0;) {
      if (++index[axis] < extents[axis]) break;
      index[axis] = 0;
    }
  }
}
std::vector<std::int64_t> extents_of(const Type& bound);
std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& extents);

// The result of `op` on these operands; empty if it has no result. The interpreter itself handles operations
// with regions, program indices, and debug output.
Cells evaluate_tiles(const Op& op, std::span<const Cells* const> operands);

} // namespace kiln::ir
