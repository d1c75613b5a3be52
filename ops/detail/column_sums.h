// Sums the columns of an array over all axes in front of the last one, with the same bits from run to run.
//
// Rows are divided into groups by their number alone, and not by the number of threads. A first kernel adds
// the rows of each group, a second one adds the sums of the groups in order.
#pragma once

#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>

namespace kiln::ops::detail {

// How the tiles of a matrix are divided among programs that each add up the columns of their rows.
struct RowGroups {
  std::int64_t count, tiles; // the number of groups, and the tiles of a group; the last one may have fewer
};
// `rows` is the number of rows of a tile. A heuristic: groups of 16 rows or more, so that their sums are few
// next to the rows, and at most 128 groups on a CPU and 512 on a GPU, which have work enough for each core.
RowGroups row_groups(const StreamAt& at, std::int64_t tiles, std::int64_t rows);

enum class Store : std::uint8_t { replace, add };

// Queues out = the sums of the columns of x, or out += the sums. x has at least two axes, and `out` one, with
// the extent of the last axis of x. Without rows, the sums are zero. `op` names the op in the log.
void sum_columns(const StreamAt& at, const char* op, const Array& x, const Array& out, Store store);
// The second kernel alone, for the sums of groups, [groups, columns], that a kernel of the op made.
void sum_groups(const StreamAt& at, const Array& groups, const Array& out, Store store);

} // namespace kiln::ops::detail
