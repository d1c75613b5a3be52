// Implements the search of Helion's autotuner.
#include <kiln/autotune/search/helion.h>

#include "unseen.h"
#include <kiln/autotune/model/forest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>

namespace kiln::tune {

namespace {

constexpr std::size_t initial_population = 100, most_copies = 5, neighbour_tries = 200;
constexpr int max_generations = 20, radius = 2, patience = 1;
constexpr double selected_share = .1, quantile = .1, similarity_penalty = 1, least_improvement = .001;

class Helion final : public Strategy {
public:
  Helion(SearchContext context, int batch)
      : context_(std::move(context)), batch_(static_cast<std::size_t>(batch)), random_(context_.seed),
        unseen_(context_.space) {
    rows_.columns = knobs().size();
  }
  const char* name() const override { return batch_ ? "helion8" : "helion"; }
  std::size_t batch() const override { return batch_ ? batch_ : 50; }

  std::vector<Proposal> propose(std::size_t most) override {
    std::vector<Proposal> proposals;
    if (times_.empty() && queue_.empty()) add_initial();
    if (queue_.empty() && waiting_ == 0) next_generation();
    while (proposals.size() < most && !queue_.empty()) {
      proposals.push_back(std::move(queue_.front()));
      queue_.pop_front();
      ++waiting_;
    }
    return proposals;
  }

  void observe(std::span<const Trial> trials) override {
    for (const Trial& t : trials) {
      double seconds = t.result.ok() && t.result.seconds > 0 ? t.result.seconds : infinity;
      encode(t.point, rows_.add());
      times_.push_back(seconds);
      known_[t.point] = seconds;
      waiting_ -= std::min<std::size_t>(waiting_, 1);
    }
  }

private:
  struct Copy {
    Point at;
    int patience_left;
    std::vector<Point> measured; // the points that it measured in the last generation
  };

  const std::vector<Knob>& knobs() const { return context_.space.knobs(); }
  void encode(const Point& p, std::span<float> row) const {
    for (std::size_t k = 0; k < p.size(); ++k)
      row[k] = static_cast<float>(context_.space.value(p, k));
  }
  double time(const Point& p) const {
    auto at = known_.find(p);
    return at == known_.end() ? infinity : at->second;
  }

  void add_initial() {
    std::vector<Proposal> seeds;
    unseen_.add_seeds(seeds, initial_population);
    for (Proposal& p : seeds)
      queue_.push_back(std::move(p));
    std::size_t count = batch_ ? 2 * batch_ : initial_population;
    add_random(count > queue_.size() ? count - queue_.size() : 0);
  }
  void add_random(std::size_t count) {
    for (; count > 0; --count) {
      auto p = unseen_.draw(random_);
      if (!p) return;
      queue_.push_back({std::move(*p), "random", 0});
    }
  }

  void next_generation() {
    learn();
    for (Copy& c : copies_)
      end_generation(c);
    std::erase_if(copies_, [](const Copy& c) { return c.patience_left < 0; });
    if (copies_.empty() || generation_ >= max_generations) start_copies();
    ++generation_;
    if (batch_)
      propose_together();
    else
      propose_for_each();
    if (queue_.empty()) { // all copies have ended
      copies_.clear();
      add_random(batch_ ? batch_ : most_copies);
    }
  }

  void start_copies() {
    copies_.clear();
    generation_ = 0;
    std::vector<std::pair<double, Point>> sorted;
    for (const auto& [point, seconds] : known_)
      if (std::isfinite(seconds)) sorted.push_back({seconds, point});
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < std::min(most_copies, sorted.size()); ++i)
      copies_.push_back({sorted[i].second, patience, {}});
  }

  void end_generation(Copy& copy) {
    if (copy.measured.empty()) return;
    Point best = copy.at;
    for (const Point& p : copy.measured)
      if (time(p) < time(best)) best = p;
    copy.measured.clear();
    if (!(time(copy.at) / time(best) - 1 >= least_improvement)) --copy.patience_left;
    copy.at = best;
  }

  void propose_for_each() {
    for (Copy& copy : copies_) {
      std::vector<Point> candidates;
      for (Point& p : neighbours(copy.at))
        if (unseen_.contains(p) && generated_.insert(p).second) candidates.push_back(std::move(p));
      auto count = static_cast<std::size_t>(selected_share * static_cast<double>(candidates.size() + 1));
      for (std::size_t i : select(candidates, count)) {
        unseen_.take(candidates[i]);
        copy.measured.push_back(candidates[i]);
        queue_.push_back({candidates[i], "model", 0});
      }
      if (copy.measured.empty()) copy.patience_left = -1;
    }
    std::erase_if(copies_, [](const Copy& c) { return c.patience_left < 0; });
  }

  void propose_together() {
    std::vector<Point> candidates;
    std::vector<std::size_t> from;
    std::unordered_set<Point, PointHash> listed;
    for (std::size_t c = 0; c < copies_.size(); ++c)
      for (Point& p : neighbours(copies_[c].at))
        if (unseen_.contains(p) && listed.insert(p).second) {
          candidates.push_back(std::move(p));
          from.push_back(c);
        }
    for (std::size_t i : select(candidates, batch_)) {
      unseen_.take(candidates[i]);
      copies_[from[i]].measured.push_back(candidates[i]);
      queue_.push_back({candidates[i], "model", 0});
    }
  }

  void learn() {
    forest_.reset();
    std::vector<double> sorted;
    for (double t : times_)
      if (std::isfinite(t)) sorted.push_back(t);
    if (sorted.empty()) return;
    std::sort(sorted.begin(), sorted.end());
    double at = quantile * static_cast<double>(sorted.size() - 1); // interpolated as in numpy
    auto low = static_cast<std::size_t>(at);
    double threshold = sorted[low] + (at - static_cast<double>(low)) *
                                         (sorted[std::min(low + 1, sorted.size() - 1)] - sorted[low]);
    std::vector<std::uint8_t> labels;
    std::vector<double> weights;
    double sum = 0;
    std::size_t good = 0;
    for (double t : times_) {
      labels.push_back(t <= threshold);
      weights.push_back(t <= threshold ? std::max(1e-5, threshold - t) : 1);
      if (t <= threshold) sum += weights.back(), ++good;
    }
    if (good == times_.size()) return;
    for (std::size_t i = 0; i < weights.size(); ++i)
      if (labels[i]) weights[i] *= static_cast<double>(good) / sum;
    forest_ = Forest::train(rows_, labels, weights, {.trees = 100, .seed = 42});
  }

  // Returns the values that Helion calls neighbours: all other values for words and switches, nearby ones for
  // sizes.
  std::vector<std::uint16_t> values_near(std::size_t knob, std::uint16_t value, int distance) const {
    std::vector<std::uint16_t> result;
    for (std::size_t v = 0; v < knobs()[knob].values.size(); ++v) {
      bool near = !knobs()[knob].ordered || std::abs(static_cast<int>(v) - int{value}) <= distance;
      if (v != value && near) result.push_back(static_cast<std::uint16_t>(v));
    }
    return result;
  }
  template <class T> const T& any(const std::vector<T>& of) { return of[random_.below(of.size())]; }

  std::vector<Point> neighbours(const Point& from) {
    std::vector<std::size_t> blocks; // knobs that correspond to Helion's block sizes
    for (std::size_t k = 0; k < knobs().size(); ++k)
      if (knobs()[k].ordered && knobs()[k].values.size() > 2) blocks.push_back(k);
    std::vector<Point> result;
    for (std::size_t i = 0; i < neighbour_tries; ++i) {
      Point p = forest_ && generation_ > 1 ? by_a_tree(from, blocks) : at_random(from, blocks);
      if (p != from && context_.space.contains(p)) result.push_back(std::move(p));
    }
    return result;
  }

  Point at_random(const Point& from, const std::vector<std::size_t>& blocks) {
    Point p = from;
    std::size_t block = blocks.empty() ? knobs().size() : any(blocks);
    if (!blocks.empty()) p[block] = any(values_near(block, from[block], radius));
    std::vector<std::size_t> others;
    for (std::size_t k = 0; k < knobs().size(); ++k)
      if (k != block && knobs()[k].values.size() > 1) others.push_back(k);
    random_.shuffle(others);
    std::size_t changed = random_.below(std::min<std::size_t>(radius, others.size()) + 1);
    for (std::size_t i = 0; i < changed; ++i)
      p[others[i]] = any(values_near(others[i], from[others[i]], 1));
    return p;
  }

  Point by_a_tree(const Point& from, const std::vector<std::size_t>& blocks) {
    std::size_t tree = random_.below(forest_->trees());
    std::vector<float> row(knobs().size());
    encode(from, row);
    std::vector<std::size_t> order = forest_->columns_read(tree, row);
    if (!blocks.empty()) {
      std::size_t block = any(blocks);
      if (std::find(order.begin(), order.end(), block) == order.end()) order.push_back(block);
    }
    Point p = from;
    for (std::size_t k : order) {
      std::vector<std::uint16_t> best{p[k]};
      double most = forest_->probability(tree, row);
      for (std::uint16_t v : values_near(k, p[k], radius)) {
        row[k] = static_cast<float>(knobs()[k].values[v]);
        double probability = forest_->probability(tree, row);
        if (probability > most) best.clear(), most = probability;
        if (probability == most) best.push_back(v);
      }
      p[k] = any(best);
      row[k] = static_cast<float>(knobs()[k].values[p[k]]);
    }
    return p;
  }

  // Selects the candidates with the highest probability, reduced by the fraction of leaves shared with those
  // already chosen.
  std::vector<std::size_t> select(const std::vector<Point>& candidates, std::size_t count) {
    std::vector<std::size_t> chosen, left(candidates.size());
    for (std::size_t i = 0; i < left.size(); ++i)
      left[i] = i;
    count = std::min(count, left.size());
    if (!forest_) {
      random_.shuffle(left);
      left.resize(count);
      return left;
    }
    std::vector<double> probability, alike(candidates.size(), 0);
    std::vector<std::vector<std::size_t>> leaves;
    std::vector<float> row(knobs().size());
    for (const Point& p : candidates) {
      encode(p, row);
      probability.push_back(forest_->probability(row));
      std::vector<std::size_t>& of = leaves.emplace_back();
      for (std::size_t t = 0; t < forest_->trees(); ++t)
        of.push_back(forest_->leaf(t, row));
    }
    while (chosen.size() < count) {
      auto value = [&](std::size_t i) {
        double before = static_cast<double>(std::max<std::size_t>(chosen.size(), 1));
        return probability[i] - similarity_penalty * alike[i] / before;
      };
      auto best = std::max_element(left.begin(), left.end(),
                                   [&](std::size_t a, std::size_t b) { return value(a) < value(b); });
      chosen.push_back(*best);
      left.erase(best);
      for (std::size_t i : left) {
        std::size_t same = 0;
        for (std::size_t t = 0; t < forest_->trees(); ++t)
          same += leaves[i][t] == leaves[chosen.back()][t];
        alike[i] += static_cast<double>(same) / static_cast<double>(forest_->trees());
      }
    }
    return chosen;
  }

  SearchContext context_;
  std::size_t batch_;
  Random random_;
  Unseen unseen_;
  std::unordered_set<Point, PointHash> generated_; // not considered again, even if not chosen
  Rows rows_;
  std::vector<double> times_;
  std::map<Point, double> known_;
  std::optional<Forest> forest_;
  std::vector<Copy> copies_;
  int generation_ = 0;
  std::deque<Proposal> queue_;
  std::size_t waiting_ = 0;
};

} // namespace

std::unique_ptr<Strategy> make_helion(SearchContext context, int batch) {
  return std::make_unique<Helion>(std::move(context), batch);
}

} // namespace kiln::tune
