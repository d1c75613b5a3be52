// Defines GroupOffsets, where groups of rows begin, for kernels whose grid cannot depend on them.
//
// A tile has `tile` rows of one group, counted from the group's first row. Group g gets the tiles from
// offsets[g] / tile + g up to, but without, offsets[g + 1] / tile + g + 1. These are enough: with a length of
// q tile + r, offsets[g + 1] / tile is at least q more than offsets[g] / tile, so that there are at least
// q + 1 tiles. So rows / tile + groups tiles suffice for any offsets, and a tile finds its group by bisection.
#pragma once

#include <kiln/ops/detail/erased_view.h>

namespace kiln::ops::detail {

class GroupOffsets {
public:
  // `rows` is the number of rows of all groups. An offset that leaves them counts as the nearest one that
  // does not.
  GroupOffsets(const Handle& offsets, const Scalar<std::int64_t>& rows) : offsets_(offsets), rows_(rows) {}

  Scalar<std::int64_t> count() const { return max(offsets_.size() - 1, 0); }
  Scalar<std::int64_t> begin(const Scalar<std::int64_t>& group) const {
    return min(max(offsets_.tile(group).load(), 0), rows_);
  }
  Scalar<std::int64_t> end(const Scalar<std::int64_t>& group) const { return begin(group + 1); }

  Scalar<std::int64_t> first_tile(const Scalar<std::int64_t>& group, std::int64_t tile) const {
    return begin(group) / tile + group;
  }
  // The group to which a tile belongs; 0 for tiles that precede those of group 0.
  Scalar<std::int64_t> group_of(const Scalar<std::int64_t>& number, std::int64_t tile) const {
    auto [group, above] = while_loop(
        state(Scalar<std::int64_t>(0), count()), [](auto low, auto high) { return low + 1 < high; },
        [&](auto low, auto high) {
          Scalar<std::int64_t> middle = (low + high) / 2;
          Scalar<bool> reached = first_tile(middle, tile) <= number;
          return state(where(reached, middle, low), where(reached, high, middle));
        });
    return max(group, 0); // an index that the compiler knows not to be negative
  }

  // Checks the offsets of one group, with KILN_DEBUG=1. `mistake` is a literal.
  void check(const Scalar<std::int64_t>& group, const char* mistake) const {
    Scalar<std::int64_t> first = offsets_.tile(group).load(), last = offsets_.tile(group + 1).load();
    device_assert((first >= 0) & (first <= last) & (last <= rows_), mistake);
  }

private:
  ErasedView<std::int64_t, 1> offsets_;
  Scalar<std::int64_t> rows_;
};

} // namespace kiln::ops::detail
