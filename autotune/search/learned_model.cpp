// Fits the learned search's models, and asks them.
#include "learned_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace kiln::tune {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
} // namespace

BoostOptions LearnedModel::tree_options(std::uint64_t seed) const {
  BoostOptions boost;
  boost.trees = options_.trees, boost.depth = options_.depth;
  boost.learning_rate = options_.learning_rate, boost.least_weight = options_.least_weight;
  boost.row_share = options_.row_share, boost.column_share = options_.column_share;
  boost.seed = seed;
  return boost;
}

std::vector<double> LearnedModel::classify(const std::vector<Tried>& trials, Random& random) {
  std::vector<double> times;
  for (const Tried& t : trials)
    if (std::isfinite(t.log_seconds)) times.push_back(t.log_seconds);
  std::sort(times.begin(), times.end());
  std::size_t good =
      std::max(options_.least_good,
               static_cast<std::size_t>(std::ceil(options_.quantile * static_cast<double>(times.size()))));
  double threshold = times[std::min(good, times.size()) - 1];

  const Rows& rows = candidates_.rows();
  training_ = {};
  training_.rows.columns = rows.columns;
  for (const Tried& t : trials) {
    std::span<const float> row = rows[t.at];
    std::copy(row.begin(), row.end(), training_.rows.add().begin());
    training_.labels.push_back(t.log_seconds <= threshold ? 1.f : 0.f);
  }
  weigh_by_gain(trials, threshold);
  double scale = candidates_.has_prior() ? fit_scale(trials) : 0;
  if (scale > 0)
    for (const Tried& t : trials)
      training_.margins.push_back(static_cast<float>(-scale * candidates_.prior(t.at)));

  BoostOptions boost = tree_options(random.bits());
  boost.objective = Objective::logistic;
  std::vector<double> scores = BoostedTrees::train(training_, boost).predict(rows);
  if (scale > 0)
    for (std::size_t i = 0; i < scores.size(); ++i)
      scores[i] -= scale * candidates_.prior(i);

  // Times, with the slow ones cut off: what differs among them does not matter.
  training_.margins.clear();
  training_.weights.clear();
  double slowest = std::min(times.back(), times.front() + range);
  for (std::size_t i = 0; i < trials.size(); ++i)
    training_.labels[i] = static_cast<float>(std::min(trials[i].log_seconds, slowest));
  boost.trees = (boost.trees + 1) / 2, boost.learning_rate *= 1.5;
  boost.objective = Objective::pairwise;
  order_.emplace(BoostedTrees::train(training_, boost));
  boost.objective = Objective::squared;
  boost.least_weight = 1;
  times_.emplace(BoostedTrees::train(training_, boost));
  return scores;
}

// Good trials count by how much faster they are than the threshold, as many in all as without that: the odds
// are then the expected gain rather than the chance of any (Song et al.). It saves a sixth of the trials.
void LearnedModel::weigh_by_gain(const std::vector<Tried>& trials, double threshold) {
  double sum = 0, count = 0;
  for (const Tried& t : trials)
    if (t.log_seconds <= threshold) sum += threshold - t.log_seconds, ++count;
  if (sum <= 0) return;
  for (const Tried& t : trials)
    training_.weights.push_back(
        t.log_seconds <= threshold ? static_cast<float>((threshold - t.log_seconds) * count / sum) : 1.f);
}

double LearnedModel::order(std::size_t at) const { return order_->predict(candidates_.rows()[at]); }

// How much the prior says about the trials: the factor with the least logistic loss, pulled to a usual one
// while there are few trials.
double LearnedModel::fit_scale(const std::vector<Tried>& trials) const {
  double best_scale = 0, least = infinity;
  for (double scale : {0., .5, 1., 1.5, 2., 3., 4., 6., 8.}) {
    double start = 0, loss = 0;
    for (int step = 0; step < 12; ++step) { // Newton's method for the constant
      double first = 0, second = 1e-3;
      loss = 0;
      for (std::size_t i = 0; i < trials.size(); ++i) {
        double x = start - scale * candidates_.prior(trials[i].at);
        double y = static_cast<double>(training_.labels[i]), p = 1 / (1 + std::exp(-x));
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

// From the times that models expect of the best candidates, and from how wrong they are. The least of
// thousands of guesses of one model is mostly a lucky one, so that six are averaged: that of all trials and
// five without a fifth of them, which also say how wrong a model is about trials in the faster half that it
// has not seen. The best are alike, so that they are not independent: they count as a few.
double LearnedModel::chance_of_better(const std::vector<Tried>& trials, double best) const {
  constexpr std::size_t folds = 5;
  std::vector<double> times;
  for (const Tried& t : trials)
    times.push_back(t.log_seconds);
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  double middle = times[times.size() / 2];
  BoostOptions boost = tree_options(trials.size());
  boost.trees = 30, boost.learning_rate = .3;
  std::vector<double> expected = times_->predict(candidates_.rows());
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
  std::vector<double> chances;
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!candidates_.taken(i)) {
      double above = expected[i] / (folds + 1) - (best + std::log(.98));
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
