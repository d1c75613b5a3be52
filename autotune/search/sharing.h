// Several searches of one question: each takes its share of what it proposes, and hears of the others'
// trials.
#pragma once

#include <kiln/autotune/search/result.h>
#include <kiln/autotune/search/strategy.h>

#include <unordered_set>

namespace kiln::tune {

class Sharing {
public:
  using Seen = std::unordered_set<Point, PointHash>; // points that were measured, by whomever

  explicit Sharing(Others others) : others_(std::move(others)) {}

  // Trials of others that are news; they are seen from now on.
  std::vector<Trial> listen(Seen& seen);
  // At most `most` points, none of them seen before, and seen from now on. None: the strategy is at its end,
  // and so are the others.
  std::vector<Proposal> propose(Strategy& strategy, std::size_t most, Seen& seen);

  bool alone() const { return searches_ == 1; } // so far as was heard

private:
  Others others_;
  std::size_t searches_ = 1, own_rank_ = 0;
  std::vector<Proposal> left_; // to the others, which may end before they measure them
};

} // namespace kiln::tune
