// Assigns each point to a search by the point's hash, so that searches need no communication for this.
#include <kiln/autotune/search/sharing.h>

#include <algorithm>

namespace kiln::tune {

std::vector<Trial> Sharing::listen(Seen& seen) {
  if (!others_) return {};
  News news = others_();
  searches_ = std::max<std::size_t>(1, news.searches);
  own_rank_ = news.own_rank % searches_;
  std::erase_if(news.trials, [&](const Trial& trial) { return !seen.insert(trial.point).second; });
  return std::move(news.trials);
}

std::vector<Proposal> Sharing::propose(Strategy& strategy, std::size_t most, Seen& seen) {
  constexpr int patience_with_repeats = 8;
  for (int rounds = 1;; ++rounds) {
    std::vector<Proposal> proposals = strategy.propose(most * searches_), own;
    const bool at_its_end = proposals.empty() || rounds == patience_with_repeats;
    if (proposals.empty()) proposals.swap(left_);
    for (Proposal& proposal : proposals) {
      if (seen.contains(proposal.point)) continue;
      const bool others = !at_its_end && PointHash{}(proposal.point) % searches_ != own_rank_;
      if (others || own.size() == most) {
        left_.push_back(std::move(proposal));
        continue;
      }
      seen.insert(proposal.point);
      own.push_back(std::move(proposal));
    }
    if (!own.empty() || at_its_end) return own;
  }
}

} // namespace kiln::tune
