// Lists which steps follow which, and the steps of each rank.
#include <kiln/collectives/schedule/prepared_schedule.h>

namespace kiln::collectives {

StepGraph::StepGraph(const Schedule& schedule)
    : begins_(schedule.steps.size() + 1), of_rank_(static_cast<std::size_t>(schedule.ranks())) {
  const auto of_rank = [&](int rank) -> OfRank& { return of_rank_[static_cast<std::size_t>(rank)]; };
  // First the number of each step's followers, where those of the next begin.
  for (const Step& s : schedule.steps)
    for (int before : s.after)
      ++begins_[static_cast<std::size_t>(before) + 1];
  for (std::size_t i = 1; i < begins_.size(); ++i)
    begins_[i] += begins_[i - 1];
  followers_.resize(begins_.back());
  std::vector<std::size_t> next(begins_.begin(), begins_.end() - 1);
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& s = schedule.steps[i];
    const int step = static_cast<int>(i);
    for (int before : s.after)
      followers_[next[static_cast<std::size_t>(before)]++] = step;
    if (s.after.empty()) of_rank(s.rank).first.push_back(step);
    if (s.kind != Step::Kind::put) {
      of_rank(s.rank).computes.push_back(step);
      continue;
    }
    if (s.after.empty() && s.to != s.rank) of_rank(s.to).first.push_back(step);
    ++of_rank(s.rank).puts, ++of_rank(s.to).puts;
    bytes_ += s.bytes;
  }
}

} // namespace kiln::collectives
