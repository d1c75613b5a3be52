// Implements simulated annealing (Kirkpatrick, Gelatt and Vecchi, Science 1983) on the logarithm of time.
//
// A few parallel chains make the proposals of a batch. The constants are the best of a small sweep over the
// public tables, for a fair comparison.
#include "baselines.h"
#include "unseen.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln::tune {

namespace {

class Annealing final : public Strategy {
public:
  Annealing(SearchContext context, std::size_t chains)
      : space_(context.space), random_(context.seed), unseen_(context.space), chains_(chains),
        seeds_(context.space.seeds()) {}
  const char* name() const override { return chains_.size() == 1 ? "annealing1" : "annealing"; }
  std::size_t batch() const override { return chains_.size(); }

  std::vector<Proposal> propose(std::size_t most) override {
    std::vector<Proposal> batch;
    pending_.clear();
    while (batch.size() < std::min(most, chains_.size())) {
      const bool seed = next_seed_ < seeds_.size();
      const auto p = seed ? std::optional(seeds_[next_seed_++]) : next(chains_[batch.size()]);
      if (!p) break;
      if (seed && !unseen_.take(*p)) continue;
      batch.push_back({*p, seed ? "seed" : "annealing", 0});
      pending_.push_back(*p);
    }
    return batch;
  }

  void observe(std::span<const Trial> trials) override {
    for (std::size_t i = 0; i < trials.size(); ++i, ++trials_) {
      // Trials are in the order of the proposals; chains without a trial in this batch keep their state.
      const auto at = std::find(pending_.begin(), pending_.end(), trials[i].point);
      if (at == pending_.end()) continue;
      Chain& chain = chains_[static_cast<std::size_t>(at - pending_.begin())];
      const double cost = trials[i].result.ok() ? std::log(trials[i].result.seconds)
                                                : std::numeric_limits<double>::infinity();
      const double temperature = hot * std::pow(cooling, trials_);
      if (chain.point.empty() || cost <= chain.cost ||
          (std::isfinite(cost) && random_.uniform() < std::exp((chain.cost - cost) / temperature))) {
        chain.point = trials[i].point;
        chain.cost = cost;
      }
    }
  }

private:
  static constexpr double hot = 0.1, cooling = 0.96; // per trial
  struct Chain {
    Point point; // empty: the chain starts
    double cost = std::numeric_limits<double>::infinity();
  };

  // Returns an unseen neighbour; if all were seen, one of a random neighbour's neighbours; finally a fresh
  // start.
  std::optional<Point> next(Chain& chain) {
    Point at = chain.point;
    for (int step = 0; step < 4 && !at.empty() && std::isfinite(chain.cost); ++step) {
      std::vector<Point> near = space_.neighbours(at);
      if (near.empty()) break;
      random_.shuffle(near);
      for (const Point& p : near)
        if (unseen_.take(p)) return p;
      at = near[0];
    }
    chain = {};
    return unseen_.draw(random_);
  }

  BoundSpace& space_;
  Random random_;
  Unseen unseen_;
  std::vector<Chain> chains_;
  std::vector<Point> pending_; // one per chain, in order
  std::vector<Point> seeds_;
  std::size_t next_seed_ = 0;
  int trials_ = 0;
};

} // namespace

std::unique_ptr<Strategy> make_annealing(SearchContext context) {
  return std::make_unique<Annealing>(std::move(context), 8);
}
std::unique_ptr<Strategy> make_annealing1(SearchContext context) {
  return std::make_unique<Annealing>(std::move(context), 1);
}

} // namespace kiln::tune
