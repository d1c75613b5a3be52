// Implements the proposals of the learned search and how it processes their results.
#include <kiln/autotune/search/learned.h>

#include "learned_model.h"

#include <kiln/autotune/model/gaussian_process.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln::tune {

namespace {

constexpr std::size_t none = LearnedCandidates::none;

double deviation(std::span<const double> values) {
  double mean = 0, square = 0;
  for (double v : values)
    mean += v / static_cast<double>(values.size());
  for (double v : values)
    square += (v - mean) * (v - mean) / static_cast<double>(values.size());
  return std::sqrt(square);
}

class Learned final : public Strategy {
public:
  Learned(SearchContext context, const LearnedOptions& options)
      : context_(std::move(context)), options_(options), random_(context_.seed),
        candidates_(context_, options_, random_), model_(candidates_, options_) {}
  const char* name() const override { return "learned"; }
  std::size_t batch() const override {
    constexpr std::size_t most = 16;
    const std::size_t later = std::max(options_.batch, std::min(context_.parallel, most));
    return trials_.size() < options_.first ? options_.first : later;
  }

  std::vector<Proposal> propose(std::size_t most) override {
    batch_.clear();
    scores_.clear();
    add_known(most);
    std::size_t good = static_cast<std::size_t>(std::count_if(
        trials_.begin(), trials_.end(), [](const Tried& t) { return std::isfinite(t.log_seconds); }));
    if (trials_.size() < options_.first || good < 2)
      add_first(most);
    else
      add_modelled(most);
    while (batch_.size() < most && add_random()) {
    }
    return std::move(batch_);
  }

  // Returns the candidates that the model ranks next; the other sources of a batch have no spares.
  std::vector<Proposal> spares(std::size_t most) override {
    if (scores_.empty() || model_.share_of_facts() < options_.least_share_of_facts) return {};
    batch_.clear();
    pick(scores_, most, "model");
    return std::move(batch_);
  }

  std::vector<std::size_t> choose(std::span<const Proposal> proposals, std::span<const Measurement> compiled,
                                  std::size_t most) override {
    struct Place {
      std::size_t proposal, at;
      double score;
    };
    std::vector<Place> places;
    for (std::size_t i = 0; i < proposals.size(); ++i) {
      if (!compiled[i].ok()) continue;
      const std::size_t at = candidates_.find(proposals[i].point);
      model_.note(at, compiled[i].facts);
      places.push_back({i, at, model_.gain_from_facts(at) - options_.place_worth * static_cast<double>(i)});
    }
    std::stable_sort(places.begin(), places.end(),
                     [](const Place& a, const Place& b) { return a.score > b.score; });
    std::vector<std::size_t> chosen;
    for (const Place& place : places)
      if (chosen.size() < most) {
        chosen.push_back(place.proposal);
      } else {
        candidates_.give_back(place.at);
        --proposed_;
      }
    return chosen;
  }

  void observe(std::span<const Trial> trials) override {
    double before = best_;
    for (const Trial& t : trials) {
      std::size_t at = candidates_.add(t.point);
      if (at == none) continue;
      candidates_.take(at);
      model_.note(at, t.result.facts);
      double seconds = t.result.ok() && t.result.seconds > 0 ? std::log(t.result.seconds) : infinity;
      trials_.push_back({at, seconds});
      best_ = std::min(best_, seconds);
    }
    stale_ = best_ < before - .01 ? 0 : stale_ + trials.size();
  }

  double chance_of_better() override {
    constexpr std::size_t enough = 24, seldom = 8; // trials; the chance costs as much as a proposal
    if (proposed_ >= candidates_.size() && candidates_.complete()) return 0;
    if (!model_.knows_times() || trials_.size() < enough) return 1;
    if (chance_at_ == 0 || trials_.size() >= chance_at_ + seldom) {
      chance_at_ = trials_.size();
      chance_ = model_.chance_of_better(trials_, best_);
    }
    return chance_;
  }

private:
  using Tried = LearnedModel::Tried;

  bool take(std::size_t at, const char* source, double predicted = 0) {
    if (at == none || candidates_.taken(at)) return false;
    candidates_.take(at);
    ++proposed_;
    batch_.push_back({candidates_.point(at), source, predicted});
    chosen_.push_back(at);
    return true;
  }

  void add_known(std::size_t most) {
    chosen_.clear();
    if (started_) return;
    for (const Point& p : context_.space.seeds())
      if (batch_.size() < most) take(candidates_.add(p), "seed");
    for (const Point& p : context_.favourites)
      if (batch_.size() < most) take(candidates_.add(p), "neighbour");
    started_ = true;
  }

  bool add_random() {
    std::size_t at = candidates_.draw(random_);
    return at != none && take(at, "random");
  }

  // Adds the first batch: the best points of the prior, or points that are far from each other.
  void add_first(std::size_t most) {
    std::size_t want =
        std::min(most, options_.first > trials_.size() ? options_.first - trials_.size() : most);
    if (candidates_.has_prior()) {
      std::vector<double> scores(candidates_.size());
      for (std::size_t i = 0; i < candidates_.size(); ++i)
        scores[i] = -candidates_.prior(i);
      std::size_t randoms = want > 4 ? 1 : 0;
      pick(scores, want - randoms, "analytic");
    }
    while (batch_.size() < want) {
      std::size_t farthest = none;
      double least = infinity;
      for (int tries = 0; tries < 8; ++tries) {
        std::size_t at = candidates_.draw(random_);
        if (at == none) return;
        double closest = 0;
        for (std::size_t other : chosen_)
          closest = std::max(closest, candidates_.similarity(at, other));
        for (const Tried& t : trials_)
          closest = std::max(closest, candidates_.similarity(at, t.at));
        if (closest < least) least = closest, farthest = at;
      }
      if (!take(farthest, "random")) return;
    }
  }

  void add_modelled(std::size_t most) {
    if (!candidates_.complete())
      for (std::size_t at : best_trials(5))
        candidates_.add_neighbours(at);
    if (stale_ >= options_.stale &&
        static_cast<double>(descended_ + most) <=
            options_.descent_share * static_cast<double>(trials_.size() + most) + 8)
      add_descent(most);
    if (batch_.size() >= most) return;
    scores_ = model_.classify(trials_, random_);
    if (candidates_.has_siblings() && trials_.size() <= options_.sibling_trials)
      add_by_sibling_errors(batch_.size() + (most - batch_.size()) / 2);
    add_local(scores_, std::min(most, batch_.size() + options_.local));
    pick(scores_, most, "model");
  }

  // Adds the candidates with the largest expected gain, from the siblings' prediction corrected by their
  // errors on the trials.
  void add_by_sibling_errors(std::size_t most) {
    const double least = best_, slowest = least + LearnedModel::range;
    std::vector<Point> points;
    std::vector<double> errors;
    for (const Tried& t : trials_) {
      points.push_back(candidates_.point(t.at));
      errors.push_back(std::min(t.log_seconds, slowest) - candidates_.prior(t.at));
    }
    GaussianProcess process(knobs(), std::move(points), std::move(errors));
    std::vector<std::size_t> pool = promising(options_.sibling_pool);
    while (batch_.size() < most) {
      std::size_t chosen = none;
      double highest = -infinity, error = 0;
      for (std::size_t at : pool) {
        if (candidates_.taken(at)) continue;
        const auto guess = process(candidates_.point(at));
        const double gain =
            expected_improvement({guess.mean + candidates_.prior(at), guess.deviation}, least);
        if (gain > highest) highest = gain, chosen = at, error = guess.mean;
      }
      if (chosen == none) return;
      take(chosen, "model", std::exp(error + candidates_.prior(chosen)));
      process.add(candidates_.point(chosen), error); // assume this result, so that the next choice differs
    }
  }

  // Returns the untried candidates that siblings predict to be fastest.
  std::vector<std::size_t> promising(std::size_t count) const {
    std::vector<std::size_t> pool;
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (!candidates_.taken(i)) pool.push_back(i);
    if (pool.size() <= count) return pool;
    std::nth_element(pool.begin(), pool.begin() + static_cast<std::ptrdiff_t>(count), pool.end(),
                     [&](std::size_t a, std::size_t b) {
                       return std::pair(candidates_.prior(a), a) < std::pair(candidates_.prior(b), b);
                     });
    pool.resize(count);
    return pool;
  }

  // Adds the candidates with the best scores among those that differ in one knob from one of the three best
  // trials.
  void add_local(const std::vector<double>& scores, std::size_t most) {
    std::vector<std::size_t> around;
    for (std::size_t at : best_trials(3))
      for (const Point& p : context_.space.neighbours(candidates_.point(at))) {
        std::size_t found = candidates_.find(p);
        if (found != none && !candidates_.taken(found)) around.push_back(found);
      }
    std::stable_sort(around.begin(), around.end(),
                     [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    for (std::size_t at : around)
      if (batch_.size() < most) take(at, "model", std::exp(model_.log_seconds(at)));
  }

  const std::vector<Knob>& knobs() const { return context_.space.knobs(); }

  std::vector<std::size_t> best_trials(std::size_t count) const {
    std::vector<Tried> sorted = trials_;
    count = std::min(count, sorted.size());
    std::partial_sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count), sorted.end(),
                      [](const Tried& a, const Tried& b) {
                        return a.log_seconds != b.log_seconds ? a.log_seconds < b.log_seconds : a.at < b.at;
                      });
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < count && std::isfinite(sorted[i].log_seconds); ++i)
      result.push_back(sorted[i].at);
    return result;
  }

  // Adds moves of one knob around the three best trials; ordered knobs move by one step.
  void add_descent(std::size_t most) {
    std::size_t before = batch_.size();
    for (std::size_t at : best_trials(3)) {
      const Point from = candidates_.point(at);
      for (const Point& p : context_.space.neighbours(from)) {
        if (batch_.size() >= most) break;
        bool near = true;
        for (std::size_t k = 0; k < p.size(); ++k)
          near = near && (p[k] == from[k] || !knobs()[k].ordered || std::abs(int{p[k]} - int{from[k]}) == 1);
        if (near) take(candidates_.add(p), "descent");
      }
    }
    descended_ += batch_.size() - before;
  }

  // Takes the best of `scores` as a pool, and adds dissimilar candidates from it until the batch has `most`.
  void pick(const std::vector<double>& scores, std::size_t most, const char* source) {
    if (batch_.size() >= most) return;
    std::vector<std::pair<double, std::size_t>> pool;
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (!candidates_.taken(i)) pool.push_back({scores[i] + 1e-7 * random_.uniform(), i});
    std::size_t size = std::min(options_.pool, pool.size());
    auto end = pool.begin() + static_cast<std::ptrdiff_t>(size);
    std::partial_sort(pool.begin(), end, pool.end(),
                      [](const auto& a, const auto& b) { return a.first > b.first; });
    pool.erase(end, pool.end());
    if (pool.empty()) return;

    std::vector<double> value, predicted(size, 0), closest(size, 0);
    for (const auto& [score, at] : pool)
      value.push_back(score);
    double unit = std::max(deviation(value), 1e-6);
    for (double& v : value)
      v /= unit;
    if (model_.knows_times()) {
      std::vector<double> order;
      for (std::size_t i = 0; i < size; ++i) {
        predicted[i] = model_.log_seconds(pool[i].second);
        order.push_back(model_.order(pool[i].second));
      }
      double order_unit = std::max(deviation(order), 1e-6);
      for (std::size_t i = 0; i < size; ++i)
        value[i] -= options_.order * order[i] / order_unit;
    }
    auto note = [&](std::size_t other) {
      for (std::size_t i = 0; i < size; ++i)
        closest[i] = std::max(closest[i], candidates_.similarity(pool[i].second, other));
    };
    for (std::size_t other : chosen_)
      note(other);
    while (batch_.size() < most) {
      if (model_.knows_times() && random_.uniform() < options_.random_share) {
        if (!add_random()) return;
        continue;
      }
      std::size_t chosen = none;
      double highest = -infinity;
      for (std::size_t i = 0; i < size; ++i) {
        double v = value[i] - 2 * options_.diversity * closest[i];
        if (!candidates_.taken(pool[i].second) && v > highest) highest = v, chosen = i;
      }
      if (chosen == none) return;
      take(pool[chosen].second, source, model_.knows_times() ? std::exp(predicted[chosen]) : 0);
      note(pool[chosen].second);
    }
  }

  SearchContext context_;
  LearnedOptions options_;
  Random random_;
  LearnedCandidates candidates_;
  LearnedModel model_;

  std::vector<Tried> trials_;
  double best_ = infinity;
  std::size_t stale_ = 0; // trials without gain
  std::size_t proposed_ = 0, descended_ = 0;
  bool started_ = false;
  std::vector<Proposal> batch_;
  std::vector<double> scores_;      // of the candidates at the last proposal; empty if no model was used
  std::vector<std::size_t> chosen_; // candidates of the batch
  double chance_ = 1;
  std::size_t chance_at_ = 0; // number of trials at the last evaluation; 0: none yet
};

} // namespace

std::unique_ptr<Strategy> make_learned(SearchContext context) { return make_learned(std::move(context), {}); }
std::unique_ptr<Strategy> make_learned(SearchContext context, const LearnedOptions& options) {
  return std::make_unique<Learned>(std::move(context), options);
}

} // namespace kiln::tune
