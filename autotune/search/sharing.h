// Shares the work of several searches for the same key.
//
// Each search measures a part of its proposals, and learns the others' trials.
#pragma once

#include <kiln/autotune/search/result.h>
#include <kiln/autotune/search/strategy.h>

#include <unordered_set>

namespace kiln::tune {

class Sharing {
public:
  using Seen = std::unordered_set<Point, PointHash>; // points that any search has measured

  explicit Sharing(Others others) : others_(std::move(others)) {}

  // Returns new trials of other searches, and adds them to `seen`.
  std::vector<Trial> listen(Seen& seen);
  // Proposes at most `most` points that are not in `seen`, and adds them to it. Returns none if the strategy
  // and the other searches have no points left.
  std::vector<Proposal> propose(Strategy& strategy, std::size_t most, Seen& seen);

  bool alone() const { return searches_ == 1; } // as far as is known

private:
  Others others_;
  std::size_t searches_ = 1, own_rank_ = 0;
  std::vector<Proposal> left_; // points left to the other searches, which may end before they measure them
};

} // namespace kiln::tune
