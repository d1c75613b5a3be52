// Lists candidates and computes the predictions of siblings and of the analytic model for them.
#include "learned_candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln::tune {

namespace {
constexpr double slowest = 2.5; // log of twelve times the best; differences beyond do not matter
} // namespace

LearnedCandidates::LearnedCandidates(const SearchContext& context, const LearnedOptions& options,
                                     Random& random)
    : context_(context), columns_(context) {
  base_.columns = columns_.count();
  if (!context.candidates.empty()) {
    for (const Point& p : context.candidates)
      insert(p);
  } else if (const std::vector<Point>* all = context.space.points(options.most_candidates)) {
    complete_ = true;
    for (const Point& p : *all)
      insert(p);
  } else {
    for (std::size_t i = 0; i < options.sampled_candidates; ++i)
      if (auto p = context.space.sample(random)) insert(*p);
  }
  for (const Point& p : context.space.seeds())
    insert(p);
  for (const Point& p : context.favourites)
    if (context.space.contains(p)) insert(p);
  pairs_.emplace(base_);
  learn_prior();
  extend_rows();
}

std::size_t LearnedCandidates::insert(const Point& point) {
  auto [at, added] = index_.try_emplace(point, points_.size());
  if (added) {
    points_.push_back(point);
    columns_.fill(point, base_.add());
    taken_.push_back(false);
  }
  return at->second;
}

std::size_t LearnedCandidates::find(const Point& point) const {
  auto at = index_.find(point);
  return at == index_.end() ? none : at->second;
}

std::size_t LearnedCandidates::add(const Point& point) {
  std::size_t at = find(point);
  if (at != none || !context_.space.contains(point)) return at;
  at = insert(point);
  extend_rows();
  return at;
}

void LearnedCandidates::add_neighbours(std::size_t at) {
  for (const Point& p : context_.space.neighbours(Point(points_[at])))
    insert(p);
  extend_rows();
}

void LearnedCandidates::extend_rows() {
  Rows added;
  added.columns = base_.columns;
  added.values.assign(base_.values.begin() + static_cast<std::ptrdiff_t>(rows_.size() * base_.columns),
                      base_.values.end());
  Rows expanded = pairs_->expand(added);
  rows_.columns = expanded.columns;
  rows_.values.insert(rows_.values.end(), expanded.values.begin(), expanded.values.end());
  if (has_prior_) extend_prior();
}

void LearnedCandidates::learn_prior() {
  std::size_t columns = columns_.sibling_count();
  bool siblings = columns > 0 && context_.siblings.size() >= 24;
  for (const Sibling& s : context_.siblings)
    siblings = siblings && s.columns.size() == columns;
  has_prior_ = siblings || context_.prior;
  if (!siblings) return;
  TrainingSet set;
  set.rows.columns = columns;
  for (const Sibling& s : context_.siblings) {
    std::copy(s.columns.begin(), s.columns.end(), set.rows.add().begin());
    set.labels.push_back(
        static_cast<float>(std::isnan(s.log_seconds) ? slowest : std::clamp(s.log_seconds, 0., slowest)));
  }
  sibling_pairs_.emplace(set.rows);
  set.rows = sibling_pairs_->expand(set.rows);
  BoostOptions boost;
  boost.trees = 120, boost.depth = 5, boost.learning_rate = .1, boost.column_share = .5, boost.row_share = .8;
  boost.seed = context_.seed;
  sibling_model_ = BoostedTrees::train(set, boost);
}

void LearnedCandidates::extend_prior() {
  std::size_t from = prior_.size();
  if (sibling_model_) {
    Rows rows;
    rows.columns = columns_.sibling_count();
    for (std::size_t i = from; i < points_.size(); ++i)
      columns_.fill_sibling(points_[i], rows.add());
    for (double v : sibling_model_->predict(sibling_pairs_->expand(rows)))
      prior_.push_back(v);
  } else {
    for (std::size_t i = from; i < points_.size(); ++i)
      prior_.push_back(columns_.log_prior(points_[i]));
  }
  double least = infinity, most = -infinity;
  for (double v : prior_)
    if (!std::isnan(v)) least = std::min(least, v), most = std::max(most, v);
  for (double& v : prior_)
    if (std::isnan(v)) v = most > -infinity ? most : 0;
  if (from == 0 && least < infinity) prior_start_ = least;
}

double LearnedCandidates::prior(std::size_t at) const { return std::min(prior_[at] - prior_start_, slowest); }

std::size_t LearnedCandidates::draw(Random& random) const {
  for (int tries = 0; tries < 64 && !points_.empty(); ++tries) {
    std::size_t at = random.below(points_.size());
    if (!taken_[at]) return at;
  }
  auto rest = std::find(taken_.begin(), taken_.end(), false);
  return rest == taken_.end() ? none : static_cast<std::size_t>(rest - taken_.begin());
}

double LearnedCandidates::similarity(std::size_t a, std::size_t b) const {
  const std::vector<Knob>& knobs = context_.space.knobs();
  double sum = 0;
  for (std::size_t k = 0; k < knobs.size(); ++k) {
    std::size_t values = knobs[k].values.size();
    int steps = std::abs(int{points_[a][k]} - int{points_[b][k]});
    if (steps == 0)
      sum += 1;
    else if (knobs[k].ordered && values > 2)
      sum += std::max(0., .5 - static_cast<double>(steps) / static_cast<double>(values - 1));
  }
  return knobs.empty() ? 1 : sum / static_cast<double>(knobs.size());
}

} // namespace kiln::tune
