// Draws members without repetition: by sampling until an unseen one is found, or from a shuffled list.
#include "unseen.h"

#include <numeric>

namespace kiln::tune {

bool Unseen::take(const Point& point) {
  if (seen_.contains(point) || !space_.contains(point)) return false;
  seen_.insert(point);
  return true;
}

std::optional<Point> Unseen::draw(Random& random) {
  constexpr int tries = 32;
  if (!listed_)
    for (int i = 0; i < tries; ++i) {
      auto p = space_.sample(random);
      if (!p) return std::nullopt;
      if (seen_.insert(*p).second) return p;
    }
  // Most points were seen, or the space is small: list them.
  const std::vector<Point>* all = space_.points();
  if (!all) return std::nullopt;
  if (!listed_) {
    rest_.resize(all->size());
    std::iota(rest_.begin(), rest_.end(), 0u);
    listed_ = true;
  }
  while (!rest_.empty()) {
    std::swap(rest_[random.below(rest_.size())], rest_.back());
    const Point& p = (*all)[rest_.back()];
    rest_.pop_back();
    if (seen_.insert(p).second) return p;
  }
  return std::nullopt;
}

void Unseen::add_seeds(std::vector<Proposal>& to, std::size_t most) {
  for (const Point& s : space_.seeds())
    if (to.size() < most && take(s)) to.push_back({s, "seed", 0});
}

} // namespace kiln::tune
