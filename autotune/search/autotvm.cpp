// Implements AutoTVM's search (Chen et al., "Learning to optimize tensor programs", NeurIPS 2018).
//
// It has the defaults of TVM 0.13: batches of 64, boosted trees that predict throughput from the knobs, 128
// chains of simulated annealing over the model, and 5 % random points in each batch.
#include "baselines.h"
#include "unseen.h"

#include <kiln/autotune/model/boosted_trees.h>

#include <algorithm>
#include <cmath>

namespace kiln::tune {

namespace {

class AutoTvm final : public Strategy {
public:
  explicit AutoTvm(SearchContext context)
      : space_(context.space), random_(context.seed), unseen_(context.space) {
    data_.rows.columns = std::max<std::size_t>(1, space_.knobs().size());
  }
  const char* name() const override { return "autotvm"; }
  std::size_t batch() const override { return plan_size; }

  std::vector<Proposal> propose(std::size_t most) override {
    std::vector<Proposal> batch;
    if (data_.rows.size() == 0) unseen_.add_seeds(batch, most);
    const std::size_t planned = trained_ ? most - most / 20 : 0;
    if (planned)
      for (const auto& [score, p] : plan(planned))
        if (unseen_.take(p)) batch.push_back({p, "model", score > 0 ? fastest_ / score : 0});
    while (batch.size() < most) {
      auto p = unseen_.draw(random_);
      if (!p) break;
      batch.push_back({std::move(*p), "random", 0});
    }
    return batch;
  }

  void observe(std::span<const Trial> trials) override {
    for (const Trial& t : trials) {
      features(t.point, data_.rows.add());
      seconds_.push_back(t.result.ok() ? t.result.seconds : 0);
      if (t.result.ok() && (fastest_ == 0 || t.result.seconds < fastest_)) fastest_ = t.result.seconds;
    }
    data_.labels.clear();
    for (const double s : seconds_) // a failure has zero throughput
      data_.labels.push_back(s > 0 ? static_cast<float>(fastest_ / s) : 0);
    BoostOptions options; // AutoTVM's for XGBoost, with about as many trees as early stopping leaves
    options.objective = Objective::squared;
    options.depth = 3;
    options.learning_rate = 0.3;
    options.trees = 100;
    model_ = BoostedTrees::train(data_, options);
    trained_ = true;
  }

private:
  static constexpr std::size_t plan_size = 64, chain_count = 128;
  static constexpr int steps = 500, patience = 50;
  using Scored = std::pair<double, Point>;

  void features(const Point& p, std::span<float> row) const {
    std::fill(row.begin(), row.end(), 0.0f);
    for (std::size_t k = 0; k < p.size(); ++k)
      row[k] = static_cast<float>(space_.value(p, k));
  }
  double score(const Point& p) {
    row_.resize(data_.rows.columns);
    features(p, row_);
    return model_.predict(row_);
  }

  // Returns a member that differs in one knob, as in AutoTVM's random walk.
  std::optional<Point> step(const Point& from) {
    Point p = from;
    for (int tries = 0; tries < 16 && !p.empty(); ++tries) {
      const std::size_t k = random_.below(p.size());
      p[k] = static_cast<std::uint16_t>(random_.below(space_.knobs()[k].values.size()));
      if (p[k] != from[k] && space_.contains(p)) return p;
      p[k] = from[k];
    }
    return std::nullopt;
  }

  // Returns the unseen points with the best predictions among those that annealing visited.
  std::vector<Scored> plan(std::size_t count) {
    auto better = [](const Scored& a, const Scored& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    };
    std::vector<Scored> best; // a heap with the worst in front
    std::unordered_set<Point, PointHash> in_heap;
    bool changed = false;
    auto offer = [&](double s, const Point& p) {
      if (best.size() == count && s <= best.front().first) return;
      if (unseen_.proposed(p) || !in_heap.insert(p).second) return;
      changed = true;
      best.emplace_back(s, p);
      std::push_heap(best.begin(), best.end(), better);
      if (best.size() <= count) return;
      std::pop_heap(best.begin(), best.end(), better);
      in_heap.erase(best.back().second);
      best.pop_back();
    };
    while (chains_.size() < chain_count) {
      auto p = space_.sample(random_);
      if (!p) break;
      chains_.emplace_back(0, std::move(*p));
    }
    for (Scored& chain : chains_) {
      chain.first = score(chain.second);
      offer(chain.first, chain.second);
    }
    for (int i = 0, last = 0; i < steps && i - last < patience; ++i) {
      const double temperature = 1 - static_cast<double>(i) / steps;
      changed = false;
      for (Scored& chain : chains_) {
        const auto p = step(chain.second);
        if (!p) continue;
        const double s = score(*p);
        offer(s, *p);
        if (s >= chain.first || random_.uniform() < std::exp((s - chain.first) / (temperature + 1e-5)))
          chain = {s, *p};
      }
      if (changed) last = i;
    }
    std::sort(best.begin(), best.end(), better);
    return best;
  }

  BoundSpace& space_;
  Random random_;
  Unseen unseen_;
  TrainingSet data_;
  std::vector<double> seconds_; // per row; 0: it failed
  double fastest_ = 0;
  BoostedTrees model_;
  bool trained_ = false;
  std::vector<Scored> chains_; // kept between plans
  std::vector<float> row_;
};

} // namespace

std::unique_ptr<Strategy> make_autotvm(SearchContext context) {
  return std::make_unique<AutoTvm>(std::move(context));
}

} // namespace kiln::tune
