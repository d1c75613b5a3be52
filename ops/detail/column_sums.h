// Sums the columns of an array over all axes in front of the last one, with the same bits from run to run.
//
// Rows are divided into groups by their number alone, and not by the number of threads. A first kernel adds
// the rows of each group, a second one adds the sums of the groups in order.
#pragma once

#include <kiln/jit/runtime/device.h>
#include <kiln/ops/array.h>
#include <kiln/ops/detail/stream_at.h>

namespace kiln::ops::detail {

// How rows, or tiles of rows, are divided among programs that each add up the columns of theirs.
struct RowGroups {
  std::int64_t count, size; // the number of groups, and the rows of a group; the last one may have fewer
};
// The size of a group is a multiple of `unit`. A heuristic: at most 128 groups on a CPU and 512 on a GPU,
// which have work enough for each core. With a unit of least_group rows or more, their sums are few next to
// the rows.
RowGroups row_groups(Device device, std::int64_t rows, std::int64_t unit);
inline constexpr std::int64_t least_group = 16;

enum class Store : std::uint8_t { replace, add };

// Queues out = the sums of the columns of x, or out += the sums. x has at least two axes, and `out` one, with
// the extent of the last axis of x. Without rows, the sums are zero. `op` names the op in the log.
void sum_columns(const StreamAt& at, const char* op, const Array& x, const Array& out, Store store);
// The second kernel alone, for the sums of groups, [groups, columns], that a kernel of the op made.
void sum_groups(const StreamAt& at, const Array& groups, const Array& out, Store store);

} // namespace kiln::ops::detail
