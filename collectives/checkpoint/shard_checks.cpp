// Implements the checks of shards.
#include <kiln/collectives/checkpoint/shard_checks.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/tensor.h>

namespace kiln::collectives {

std::string shape_text(const std::vector<std::int64_t>& extents) {
  std::string text;
  for (std::int64_t n : extents)
    text += (text.empty() ? "[" : ", ") + std::to_string(n);
  return text.empty() ? "[]" : text + "]";
}

std::vector<std::int64_t> extents_of(const ops::Array& array) {
  return {array.extents, array.extents + array.rank};
}

MatrixExtents as_matrix(const std::vector<std::int64_t>& extents) {
  MatrixExtents m;
  for (std::size_t i = 0; i < extents.size(); ++i)
    (i == 0 ? m.rows : m.columns) *= extents[i];
  return m;
}

void check_shard(const std::string& where, const ops::Array& own, const TensorShard& shard) {
  const auto refuse = [&](const std::string& what) { throw UserError(where + ": " + what); };
  const auto& whole = shard.extents;
  if (whole.empty() || shard.axis < 0 || shard.axis > (whole.size() == 2 ? 1 : 0))
    refuse("a tensor of shape " + shape_text(whole) + " cannot be divided along axis " +
           std::to_string(shard.axis) + "; use axis 0, or 1 of a matrix");
  if (!kiln::detail::is_contiguous(own.rank, own.extents, own.strides))
    refuse("the rank's tensor is not contiguous; copy it to a contiguous tensor");
  const std::vector<std::int64_t> mine = extents_of(own);
  const auto axis = static_cast<std::size_t>(shard.axis);
  bool fits = mine.size() == whole.size();
  for (std::size_t i = 0; fits && i < mine.size(); ++i)
    fits = i == axis || mine[i] == whole[i];
  for (std::size_t i = 0; fits && i < shard.ranges.size(); ++i) {
    const auto& [range, begin, saved] = shard.ranges[i];
    if (range.begin < 0 || range.end < range.begin || range.end > whole[axis])
      refuse("indices " + std::to_string(range.begin) + " to " + std::to_string(range.end) +
             " are not in a tensor of shape " + shape_text(whole) + "; pass a range within it");
    fits = begin >= 0 && begin <= mine[axis] && range.count() <= mine[axis] - begin;
  }
  if (!fits)
    refuse("a tensor of shape " + shape_text(mine) + " cannot be this rank's part of one of shape " +
           shape_text(whole) + "; only axis " + std::to_string(shard.axis) +
           " may differ, and it must have all ranges");
}

} // namespace kiln::collectives
