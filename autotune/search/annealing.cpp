// Simulated annealing (Kirkpatrick, Gelatt and Vecchi, Science 1983) on the logarithm of time, in a few
// chains side by side, so that their proposals make a batch. The constants are the best of a small sweep over
// the public tables, so that the baseline is a fair one.
#include "baselines.h"
#include "unseen.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln::tune {

namespace {

class Annealing final : public Strategy {
public:
  explicit Annealing(SearchContext context)
      : space_(context.space), random_(context.seed), unseen_(context.space), chains_(chain_count) {}
  const char* name() const override { return "annealing"; }
  std::size_t batch() const override { return chain_count; }

  std::vector<Proposal> propose(std::size_t most) override {
    std::vector<Proposal> batch;
    pending_.clear();
    if (trials_ == 0)
      for (const Point& s : space_.seeds())
        if (batch.size() < most && batch.size() < chain_count && unseen_.take(s)) add(batch, s, "seed");
    while (batch.size() < std::min<std::size_t>(most, chain_count)) {
      const auto p = next(chains_[batch.size()]);
      if (!p) break;
      add(batch, *p, "annealing");
    }
    return batch;
  }

  void observe(std::span<const Trial> trials) override {
    for (std::size_t i = 0; i < trials.size(); ++i, ++trials_) {
      // Those that the loop was given are in order; chains without a trial in this batch keep their state.
      const auto at = std::find(pending_.begin(), pending_.end(), trials[i].point);
      if (at == pending_.end()) continue;
      Chain& chain = chains_[static_cast<std::size_t>(at - pending_.begin())];
      const double cost = trials[i].result.ok() ? std::log(trials[i].result.seconds)
                                                : std::numeric_limits<double>::infinity();
      const double temperature = hot * std::pow(cooling, trials_);
      if (chain.point.empty() || cost <= chain.cost ||
          (std::isfinite(cost) && random_.uniform() < std::exp((chain.cost - cost) / temperature))) {
        if (cost < chain.cost || chain.point.empty()) chain.rejected = 0;
        chain.point = trials[i].point;
        chain.cost = cost;
      } else {
        ++chain.rejected;
      }
    }
  }

private:
  static constexpr std::size_t chain_count = 4;
  static constexpr double hot = 0.3, cooling = 0.98; // a trial
  struct Chain {
    Point point; // empty: it begins
    double cost = std::numeric_limits<double>::infinity();
    int rejected = 0;
  };

  void add(std::vector<Proposal>& batch, const Point& p, const char* source) {
    batch.push_back({p, source, 0});
    pending_.push_back(p);
  }

  // An unseen neighbour; where all were seen, one of a random neighbour's, and at last a fresh start.
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
  std::vector<Point> pending_; // of the chains in order
  int trials_ = 0;
};

} // namespace

std::unique_ptr<Strategy> make_annealing(SearchContext context) {
  return std::make_unique<Annealing>(std::move(context));
}

} // namespace kiln::tune
