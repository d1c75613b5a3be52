// Fits the models of the learned search and computes their predictions.
#include "learned_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace kiln::tune {

BoostOptions LearnedModel::tree_options(std::uint64_t seed) const {
  BoostOptions boost;
  boost.trees = options_.trees, boost.depth = options_.depth;
  boost.learning_rate = options_.learning_rate, boost.least_weight = options_.least_weight;
  boost.row_share = options_.row_share, boost.column_share = options_.column_share;
  boost.seed = seed;
  return boost;
}

LearnedModel::Targets LearnedModel::targets_of(const std::vector<Tried>& trials) const {
  std::vector<double> times;
  for (const Tried& t : trials)
    if (std::isfinite(t.log_seconds)) times.push_back(t.log_seconds);
  std::sort(times.begin(), times.end());
  std::size_t good =
      std::max(options_.least_good,
               static_cast<std::size_t>(std::ceil(options_.quantile * static_cast<double>(times.size()))));
  double threshold = times[std::min(good, times.size()) - 1];
  // Clamp slow times, since differences among them do not matter.
  double slowest = std::min(times.back(), times.front() + range);
  Targets targets;
  for (const Tried& t : trials) {
    targets.good.push_back(t.log_seconds <= threshold ? 1.f : 0.f);
    targets.log_seconds.push_back(static_cast<float>(std::min(t.log_seconds, slowest)));
  }
  targets.weights = gains(trials, threshold);
  return targets;
}

LearnedModel::Targets LearnedModel::Targets::of(const std::vector<std::size_t>& trials) const {
  auto some = [&](const std::vector<float>& all) {
    std::vector<float> chosen;
    for (std::size_t i : trials)
      if (!all.empty()) chosen.push_back(all[i]);
    return chosen;
  };
  return {some(good), some(weights), some(margins), some(log_seconds)};
}

std::vector<double> LearnedModel::classify(const std::vector<Tried>& trials, Random& random) {
  const Rows& rows = candidates_.rows();
  Targets targets = targets_of(trials);
  const double scale = candidates_.has_prior() ? fit_scale(trials, targets.good) : 0;
  if (scale > 0)
    for (const Tried& t : trials)
      targets.margins.push_back(static_cast<float>(-scale * candidates_.prior(t.at)));

  const std::uint64_t seed = random.bits();
  training_ = {};
  training_.rows.columns = rows.columns;
  for (const Tried& t : trials) {
    std::span<const float> row = rows[t.at];
    std::copy(row.begin(), row.end(), training_.rows.add().begin());
  }
  plain_ = fit(training_, targets, seed);
  BoostOptions boost = options_of_times(seed);
  boost.objective = Objective::pairwise;
  order_ = BoostedTrees::train(training_, boost); // fit() has set the labels to times
  fit_informed(trials, targets, seed);

  std::vector<double> scores = plain_->good.predict(rows);
  if (scale > 0)
    for (std::size_t i = 0; i < scores.size(); ++i)
      scores[i] -= scale * candidates_.prior(i);
  if (informed_)
    for (std::size_t at : facts_.candidates())
      scores[at] += gain_from_facts(at);
  return scores;
}

// Uses only trials with known facts. Otherwise the missing facts of trials that did not compile would be the
// best predictor, which is useless among candidates that compile.
void LearnedModel::fit_informed(const std::vector<Tried>& trials, const Targets& targets,
                                std::uint64_t seed) {
  std::vector<std::size_t> known, at;
  for (std::size_t i = 0; i < trials.size(); ++i)
    if (facts_.known(trials[i].at)) known.push_back(i), at.push_back(trials[i].at);
  facts_.choose_columns(at);
  informed_.reset();
  offset_ = 0;
  if (facts_.columns() == 0) return;
  TrainingSet set;
  set.rows.columns = candidates_.rows().columns + facts_.columns();
  for (std::size_t candidate : at)
    facts_.append(candidate, candidates_.rows()[candidate], set.rows);
  informed_ = fit(set, targets.of(known), seed);
  double sum = 0;
  for (std::size_t candidate : at)
    sum += gain_from_facts(candidate);
  offset_ = sum / static_cast<double>(at.size());
}

BoostOptions LearnedModel::options_of_times(std::uint64_t seed) const {
  BoostOptions boost = tree_options(seed);
  boost.trees = (boost.trees + 1) / 2, boost.learning_rate *= 1.5;
  return boost;
}

LearnedModel::Trees LearnedModel::fit(TrainingSet& set, const Targets& targets, std::uint64_t seed) const {
  BoostOptions boost = tree_options(seed);
  set.labels = targets.good, set.weights = targets.weights, set.margins = targets.margins;
  boost.objective = Objective::logistic;
  BoostedTrees good = BoostedTrees::train(set, boost);
  set.labels = targets.log_seconds, set.weights.clear(), set.margins.clear();
  boost = options_of_times(seed);
  boost.objective = Objective::squared;
  boost.least_weight = 1;
  return {std::move(good), BoostedTrees::train(set, boost)};
}

double LearnedModel::predict(BoostedTrees Trees::* trees, std::size_t at) const {
  const std::span<const float> row = candidates_.rows()[at];
  if (!informed(at)) return ((*plain_).*trees).predict(row);
  Rows with_facts;
  with_facts.columns = row.size() + facts_.columns();
  facts_.append(at, row, with_facts);
  return ((*informed_).*trees).predict(with_facts[0]);
}

double LearnedModel::order(std::size_t at) const { return order_->predict(candidates_.rows()[at]); }

double LearnedModel::gain_from_facts(std::size_t at) const {
  if (!informed(at)) return 0;
  return predict(&Trees::good, at) - plain_->good.predict(candidates_.rows()[at]) - offset_;
}

double LearnedModel::share_of_facts() const {
  if (!informed_) return 0;
  const std::vector<double> importance = informed_->good.importance();
  return std::accumulate(importance.end() - static_cast<std::ptrdiff_t>(facts_.columns()), importance.end(),
                         0.);
}

// Weights good trials by how much faster they are than the threshold, with the same total weight as before.
// The odds then measure the expected gain instead of the probability of any gain (Song et al.). This saves a
// sixth of the trials.
std::vector<float> LearnedModel::gains(const std::vector<Tried>& trials, double threshold) const {
  double sum = 0, count = 0;
  for (const Tried& t : trials)
    if (t.log_seconds <= threshold) sum += threshold - t.log_seconds, ++count;
  std::vector<float> weights;
  if (sum <= 0) return weights;
  for (const Tried& t : trials)
    weights.push_back(
        t.log_seconds <= threshold ? static_cast<float>((threshold - t.log_seconds) * count / sum) : 1.f);
  return weights;
}

// Returns the scale of the prior with the least logistic loss, regularised towards a usual value while there
// are few trials.
double LearnedModel::fit_scale(const std::vector<Tried>& trials, const std::vector<float>& good) const {
  double best_scale = 0, least = infinity;
  for (double scale : {0., .5, 1., 1.5, 2., 3., 4., 6., 8.}) {
    double start = 0, loss = 0;
    for (int step = 0; step < 12; ++step) { // Newton's method for the constant term
      double first = 0, second = 1e-3;
      loss = 0;
      for (std::size_t i = 0; i < trials.size(); ++i) {
        double x = start - scale * candidates_.prior(trials[i].at);
        double y = static_cast<double>(good[i]), p = 1 / (1 + std::exp(-x));
        first += p - y, second += p * (1 - p);
        loss += std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.) - y * x;
      }
      start -= std::clamp(first / second, -2., 2.);
    }
    double away = std::log((scale + .5) / (options_.prior_scale + .5));
    loss += options_.prior_trust * away * away;
    if (loss < least) least = loss, best_scale = scale;
  }
  return best_scale;
}

// Estimates the probability from the predicted times of the best candidates and the models' errors. The
// smallest of thousands of predictions of one model is mostly an outlier, so six models are averaged: one
// fitted to all trials and five fitted without a fifth of them. The latter also show the error on trials in
// the faster half that a model has not seen. The best candidates are similar and hence not independent, so
// only a few are counted.
double LearnedModel::chance_of_better(const std::vector<Tried>& trials, double best) const {
  constexpr std::size_t folds = 5;
  std::vector<double> times;
  for (const Tried& t : trials)
    times.push_back(t.log_seconds);
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  double middle = times[times.size() / 2];
  BoostOptions boost = tree_options(trials.size());
  boost.trees = 30, boost.learning_rate = .3;
  std::vector<double> expected = plain_->times.predict(candidates_.rows());
  double square = 0;
  std::size_t count = 0;
  for (std::size_t fold = 0; fold < folds; ++fold) {
    TrainingSet set;
    set.rows.columns = training_.rows.columns;
    for (std::size_t i = 0; i < training_.labels.size(); ++i)
      if (i % folds != fold) {
        std::span<const float> row = training_.rows[i];
        std::copy(row.begin(), row.end(), set.rows.add().begin());
        set.labels.push_back(training_.labels[i]);
      }
    BoostedTrees model = BoostedTrees::train(set, boost);
    for (std::size_t i = fold; i < training_.labels.size(); i += folds)
      if (trials[i].log_seconds <= middle) {
        double error = model.predict(training_.rows[i]) - static_cast<double>(training_.labels[i]);
        square += error * error;
        ++count;
      }
    std::vector<double> guesses = model.predict(candidates_.rows());
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] += guesses[i];
  }
  double sigma = std::max(count ? std::sqrt(square / static_cast<double>(count)) : 1., 1e-3);
  for (double& seconds : expected)
    seconds /= folds + 1;
  if (informed_) // candidates that were compiled but not run have facts
    for (std::size_t at : facts_.candidates())
      if (!candidates_.taken(at)) expected[at] = predict(&Trees::times, at);
  std::vector<double> chances;
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!candidates_.taken(i)) {
      double above = expected[i] - (best + std::log(.98));
      chances.push_back(.5 * std::erfc(above / sigma / std::sqrt(2.)));
    }
  std::size_t few = std::min<std::size_t>(4, chances.size());
  std::partial_sort(chances.begin(), chances.begin() + static_cast<std::ptrdiff_t>(few), chances.end(),
                    std::greater<>());
  double no = 1;
  for (std::size_t i = 0; i < few; ++i)
    no *= 1 - chances[i];
  return 1 - no;
}

} // namespace kiln::tune
