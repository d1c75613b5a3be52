// Implements a search strategy that is a genetic algorithm.
//
// The fastest points so far are the parents; a child takes each knob from one of two parents and mutates.
// Children that are not members of the space are generated again. The constants are the best of a small sweep
// over the public tables, for a fair comparison.
#include "baselines.h"
#include "unseen.h"

#include <algorithm>
#include <cmath>

namespace kiln::tune {

namespace {

class Genetic final : public Strategy {
public:
  explicit Genetic(SearchContext context)
      : space_(context.space), random_(context.seed), unseen_(context.space) {}
  const char* name() const override { return "genetic"; }
  std::size_t batch() const override { return 8; }

  std::vector<Proposal> propose(std::size_t most) override {
    std::vector<Proposal> batch;
    if (population_.empty()) unseen_.add_seeds(batch, most);
    while (batch.size() < most) {
      std::optional<Point> p;
      if (unseen_.count() >= first_generation && population_.size() >= 2) p = child();
      const char* source = p ? "genetic" : "random";
      if (!p) p = unseen_.draw(random_);
      if (!p) break;
      batch.push_back({std::move(*p), source, 0});
    }
    return batch;
  }

  void observe(std::span<const Trial> trials) override {
    for (const Trial& t : trials)
      if (t.result.ok()) population_.push_back({t.result.seconds, t.point});
    std::stable_sort(population_.begin(), population_.end(),
                     [](const Member& a, const Member& b) { return a.seconds < b.seconds; });
    if (population_.size() > parents) population_.resize(parents);
  }

private:
  static constexpr std::size_t first_generation = 32, parents = 8;
  static constexpr double mutation = 0.1; // probability per knob
  struct Member {
    double seconds;
    Point point;
  };

  const Point& parent() { // the better of two
    const std::size_t a = random_.below(population_.size()), b = random_.below(population_.size());
    return population_[std::min(a, b)].point;
  }

  std::optional<Point> child() {
    for (int tries = 0; tries < 64; ++tries) {
      const Point &a = parent(), &b = parent();
      Point p = a;
      for (std::size_t k = 0; k < p.size(); ++k) {
        if (random_.below(2)) p[k] = b[k];
        const std::size_t values = space_.knobs()[k].values.size();
        if (random_.uniform() < mutation) p[k] = static_cast<std::uint16_t>(random_.below(values));
      }
      if (unseen_.take(p)) return p;
    }
    return std::nullopt;
  }

  BoundSpace& space_;
  Random random_;
  Unseen unseen_;
  std::vector<Member> population_; // fastest first
};

} // namespace

std::unique_ptr<Strategy> make_genetic(SearchContext context) {
  return std::make_unique<Genetic>(std::move(context));
}

} // namespace kiln::tune
