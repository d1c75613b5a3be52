// Defines PreparedSchedule, a schedule with the lists that are needed to execute it.
//
//   const auto s = std::make_shared<const PreparedSchedule>(ring_gather(shards, bytes));
//   for (int follower : s->graph.followers(step)) ...                  // the steps that wait for this one
//
// The lists take time in proportion to the steps, so a schedule is prepared once for all its calls.
#pragma once

#include <kiln/collectives/schedule/schedule.h>
#include <kiln/dsl/api.h>

#include <span>
#include <utility>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

class StepGraph {
public:
  explicit StepGraph(const Schedule& schedule);

  // The steps that wait for a step, in their order.
  std::span<const int> followers(int step) const {
    const auto i = static_cast<std::size_t>(step);
    return {followers_.data() + begins_[i], followers_.data() + begins_[i + 1]};
  }
  struct OfRank {
    std::vector<int> computes; // its computations and reductions, in their order
    std::vector<int> first;    // the steps that wait for no other: its own, and puts to it
    int puts = 0;              // from and to it
  };
  const OfRank& of(int rank) const { return of_rank_[static_cast<std::size_t>(rank)]; }
  std::int64_t bytes() const { return bytes_; } // that all puts send

private:
  std::vector<std::size_t> begins_; // of each step's part of followers_
  std::vector<int> followers_;
  std::vector<OfRank> of_rank_;
  std::int64_t bytes_ = 0;
};

struct PreparedSchedule : Schedule {
  explicit PreparedSchedule(Schedule schedule) : Schedule(std::move(schedule)), graph(*this) {}
  const StepGraph graph;
};

} // namespace kiln::collectives
KILN_API_END
