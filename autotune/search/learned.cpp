// The learned search.
#include <kiln/autotune/search/learned.h>

#include <kiln/autotune/model/boosted_trees.h>
#include <kiln/autotune/model/columns.h>
#include <kiln/autotune/random.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kiln::tune {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// How alike two points are: 1 for equal ones.
double similarity(const std::vector<Knob>& knobs, const Point& a, const Point& b) {
  double sum = 0;
  for (std::size_t k = 0; k < knobs.size(); ++k) {
    std::size_t values = knobs[k].values.size();
    if (a[k] == b[k])
      sum += 1;
    else if (knobs[k].ordered && values > 2)
      sum += std::max(0., .5 - std::abs(static_cast<double>(a[k]) - static_cast<double>(b[k])) /
                                   static_cast<double>(values - 1));
  }
  return knobs.empty() ? 1 : sum / static_cast<double>(knobs.size());
}

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
      : context_(std::move(context)), options_(options), random_(context_.seed), columns_(context_) {
    list_candidates();
    learn_prior();
  }
  const char* name() const override { return "learned"; }
  std::size_t batch() const override { return options_.batch; }

  std::vector<Proposal> propose(std::size_t most) override {
    batch_.clear();
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

  void observe(std::span<const Trial> trials) override {
    double before = best_;
    for (const Trial& t : trials) {
      std::size_t at = candidate(t.point);
      if (at == none) continue;
      taken_[at] = true;
      double seconds = t.result.ok() && t.result.seconds > 0 ? std::log(t.result.seconds) : infinity;
      trials_.push_back({at, seconds});
      best_ = std::min(best_, seconds);
    }
    stale_ = best_ < before - .01 ? 0 : stale_ + 1;
    chance_known_ = false;
  }

  double chance_of_better() override;

private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  struct Tried {
    std::size_t at;
    double log_seconds; // infinite for failures
  };

  // Candidates: all points, or in large spaces a sample, to which those around the best are added.
  void list_candidates() {
    base_.columns = columns_.count();
    if (const std::vector<Point>* all = context_.space.points(options_.most_candidates)) {
      complete_ = true;
      for (const Point& p : *all)
        add_candidate(p);
    } else {
      for (std::size_t i = 0; i < options_.sampled_candidates; ++i)
        if (auto p = context_.space.sample(random_)) add_candidate(*p);
    }
    for (const Point& p : context_.space.seeds())
      add_candidate(p);
    for (const Point& p : context_.favourites)
      if (context_.space.contains(p)) add_candidate(p);
    pairs_.emplace(base_);
    rows_ = pairs_->expand(base_);
  }

  std::size_t add_candidate(const Point& point) {
    auto [at, added] = index_.try_emplace(point, points_.size());
    if (added) {
      points_.push_back(point);
      columns_.fill(point, base_.add());
      taken_.push_back(false);
    }
    return at->second;
  }

  // The index of a point, which becomes a candidate if it is none yet.
  std::size_t candidate(const Point& point) {
    auto at = index_.find(point);
    if (at != index_.end()) return at->second;
    if (!context_.space.contains(point)) return none;
    add_candidate(point);
    update_rows();
    return points_.size() - 1;
  }

  void update_rows() {
    Rows added;
    added.columns = base_.columns;
    added.values.assign(base_.values.begin() + static_cast<std::ptrdiff_t>(rows_.size() * base_.columns),
                        base_.values.end());
    Rows expanded = pairs_->expand(added);
    rows_.values.insert(rows_.values.end(), expanded.values.begin(), expanded.values.end());
    if (has_prior_) extend_prior();
  }

  // What siblings tell, or else the analytic model: for each candidate the logarithm of its time over the
  // best.
  void learn_prior() {
    std::size_t columns = columns_.sibling_count();
    bool siblings = columns > 0 && context_.siblings.size() >= 24;
    for (const Sibling& s : context_.siblings)
      siblings = siblings && s.columns.size() == columns;
    has_prior_ = siblings || context_.prior;
    if (siblings) {
      constexpr double slowest = 2.5;
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
      boost.trees = 120, boost.depth = 5, boost.learning_rate = .1, boost.column_share = .5,
      boost.row_share = .8;
      boost.seed = context_.seed;
      sibling_model_ = BoostedTrees::train(set, boost);
    }
    if (has_prior_) extend_prior();
  }

  void extend_prior() {
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
  double prior(std::size_t at) const { return std::min(prior_[at] - prior_start_, 2.5); }

  // ---- choosing

  bool take(std::size_t at, const char* source, double predicted = 0) {
    if (at == none || taken_[at]) return false;
    taken_[at] = true;
    ++proposed_;
    batch_.push_back({points_[at], source, predicted});
    chosen_.push_back(at);
    return true;
  }

  void add_known(std::size_t most) {
    chosen_.clear();
    if (started_) return;
    for (const Point& p : context_.space.seeds())
      if (batch_.size() < most) take(candidate(p), "seed");
    for (const Point& p : context_.favourites)
      if (batch_.size() < most) take(candidate(p), "neighbour");
    started_ = true;
  }

  std::size_t draw() {
    for (int tries = 0; tries < 64 && !points_.empty(); ++tries) {
      std::size_t at = random_.below(points_.size());
      if (!taken_[at]) return at;
    }
    auto rest = std::find(taken_.begin(), taken_.end(), false);
    return rest == taken_.end() ? none : static_cast<std::size_t>(rest - taken_.begin());
  }
  bool add_random() {
    std::size_t at = draw();
    return at != none && take(at, "random");
  }

  // The first batch: the best of the prior, else points far from each other.
  void add_first(std::size_t most) {
    std::size_t want =
        std::min(most, options_.first > trials_.size() ? options_.first - trials_.size() : most);
    if (has_prior_) {
      std::vector<double> scores(points_.size());
      for (std::size_t i = 0; i < points_.size(); ++i)
        scores[i] = -prior(i);
      std::size_t randoms = want > 4 ? 1 : 0;
      pick(scores, want - randoms, "analytic");
    }
    while (batch_.size() < want) {
      std::size_t farthest = none;
      double least = infinity;
      for (int tries = 0; tries < 8; ++tries) {
        std::size_t at = draw();
        if (at == none) return;
        double closest = 0;
        for (std::size_t other : chosen_)
          closest = std::max(closest, similarity(knobs(), points_[at], points_[other]));
        for (const Tried& t : trials_)
          closest = std::max(closest, similarity(knobs(), points_[at], points_[t.at]));
        if (closest < least) least = closest, farthest = at;
      }
      if (!take(farthest, "random")) return;
    }
  }

  void add_modelled(std::size_t most) {
    if (!complete_) add_around_best();
    if (stale_ >= 2 && static_cast<double>(descended_ + most) <=
                           options_.descent_share * static_cast<double>(trials_.size() + most) + 8)
      add_descent(most);
    if (batch_.size() >= most) return;
    std::vector<double> scores = classify();
    if (options_.local > 0) add_local(scores, std::min(most, batch_.size() + options_.local));
    pick(scores, most, "model");
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

  void add_around_best() {
    for (std::size_t at : best_trials(5))
      for (const Point& p : context_.space.neighbours(Point(points_[at])))
        add_candidate(p);
    update_rows();
  }

  // Moves of one knob, of ordered ones by one step, around the three best.
  void add_descent(std::size_t most) {
    std::size_t before = batch_.size();
    for (std::size_t at : best_trials(3)) {
      const Point from = points_[at];
      for (const Point& p : context_.space.neighbours(from)) {
        if (batch_.size() >= most) break;
        bool near = true;
        for (std::size_t k = 0; k < p.size(); ++k)
          near = near && (p[k] == from[k] || !knobs()[k].ordered || std::abs(int{p[k]} - int{from[k]}) == 1);
        if (near) take(candidate(p), "descent");
      }
    }
    descended_ += batch_.size() - before;
  }

  void add_local(const std::vector<double>& scores, std::size_t most) {
    std::vector<std::size_t> around;
    for (std::size_t at : best_trials(3))
      for (const Point& p : context_.space.neighbours(points_[at])) {
        auto found = index_.find(p);
        if (found != index_.end() && !taken_[found->second]) around.push_back(found->second);
      }
    std::stable_sort(around.begin(), around.end(),
                     [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    for (std::size_t at : around)
      if (batch_.size() < most) take(at, "model");
  }

  // The log-odds of each candidate to be in the fastest tenth.
  std::vector<double> classify() {
    std::vector<double> times;
    for (const Tried& t : trials_)
      if (std::isfinite(t.log_seconds)) times.push_back(t.log_seconds);
    std::sort(times.begin(), times.end());
    std::size_t good =
        std::max(options_.least_good,
                 static_cast<std::size_t>(std::ceil(options_.quantile * static_cast<double>(times.size()))));
    double threshold = times[std::min(good, times.size()) - 1];

    training_ = {};
    training_.rows.columns = rows_.columns;
    for (const Tried& t : trials_) {
      std::span<const float> row = rows_[t.at];
      std::copy(row.begin(), row.end(), training_.rows.add().begin());
      training_.labels.push_back(t.log_seconds <= threshold ? 1.f : 0.f);
    }
    double scale = has_prior_ ? fit_scale() : 0;
    if (scale > 0)
      for (const Tried& t : trials_)
        training_.margins.push_back(static_cast<float>(-scale * prior(t.at)));

    BoostOptions boost = tree_options();
    boost.objective = Objective::logistic;
    std::vector<double> scores = BoostedTrees::train(training_, boost).predict(rows_);
    if (scale > 0)
      for (std::size_t i = 0; i < scores.size(); ++i)
        scores[i] -= scale * prior(i);

    // Times, with the slow ones cut off: what differs among them does not matter.
    training_.margins.clear();
    double slowest = std::min(times.back(), times.front() + 1.5);
    for (std::size_t i = 0; i < trials_.size(); ++i)
      training_.labels[i] = static_cast<float>(std::min(trials_[i].log_seconds, slowest));
    boost.objective = Objective::squared;
    boost.least_weight = 1;
    boost.trees = (boost.trees + 1) / 2, boost.learning_rate *= 1.5;
    times_.emplace(BoostedTrees::train(training_, boost));
    return scores;
  }

  BoostOptions tree_options() {
    BoostOptions boost;
    boost.trees = options_.trees, boost.depth = options_.depth;
    boost.learning_rate = options_.learning_rate, boost.least_weight = options_.least_weight;
    boost.row_share = options_.row_share, boost.column_share = options_.column_share;
    boost.seed = random_.bits();
    return boost;
  }

  // How much the prior says about the trials: the factor with the least logistic loss, pulled to a usual one
  // while there are few trials.
  double fit_scale() const {
    double best_scale = 0, least = infinity;
    for (double scale : {0., .5, 1., 1.5, 2., 3., 4., 6., 8.}) {
      double start = 0, loss = 0;
      for (int step = 0; step < 12; ++step) { // Newton's method for the constant
        double first = 0, second = 1e-3;
        loss = 0;
        for (std::size_t i = 0; i < trials_.size(); ++i) {
          double x = start - scale * prior(trials_[i].at), y = static_cast<double>(training_.labels[i]);
          double p = 1 / (1 + std::exp(-x));
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

  // From the best of `scores` a pool, from it those that are not like each other, until the batch has `most`.
  void pick(const std::vector<double>& scores, std::size_t most, const char* source) {
    if (batch_.size() >= most) return;
    std::vector<std::pair<double, std::size_t>> pool;
    for (std::size_t i = 0; i < points_.size(); ++i)
      if (!taken_[i]) pool.push_back({scores[i] + 1e-7 * random_.uniform(), i});
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
    if (times_) {
      for (std::size_t i = 0; i < size; ++i)
        predicted[i] = times_->predict(rows_[pool[i].second]);
      double time_unit = std::max(deviation(predicted), 1e-6);
      for (std::size_t i = 0; i < size; ++i)
        value[i] -= options_.order * predicted[i] / time_unit;
    }
    auto note = [&](std::size_t other) {
      for (std::size_t i = 0; i < size; ++i)
        closest[i] = std::max(closest[i], similarity(knobs(), points_[pool[i].second], points_[other]));
    };
    for (std::size_t other : chosen_)
      note(other);
    while (batch_.size() < most) {
      if (times_ && random_.uniform() < options_.random_share) {
        if (!add_random()) return;
        continue;
      }
      std::size_t chosen = none;
      double highest = -infinity;
      for (std::size_t i = 0; i < size; ++i) {
        double v = value[i] - 2 * options_.diversity * closest[i];
        if (!taken_[pool[i].second] && v > highest) highest = v, chosen = i;
      }
      if (chosen == none) return;
      take(pool[chosen].second, source, times_ ? std::exp(predicted[chosen]) : 0);
      note(pool[chosen].second);
    }
  }

  SearchContext context_;
  LearnedOptions options_;
  Random random_;
  PointColumns columns_;
  std::vector<Point> points_;
  std::unordered_map<Point, std::size_t, PointHash> index_;
  Rows base_, rows_; // of the candidates, without pairs and with them
  std::optional<PairColumns> pairs_, sibling_pairs_;
  std::vector<bool> taken_;
  bool complete_ = false;

  bool has_prior_ = false;
  std::optional<BoostedTrees> sibling_model_;
  std::vector<double> prior_;
  double prior_start_ = 0;

  std::vector<Tried> trials_;
  double best_ = infinity;
  int stale_ = 0; // batches without gain
  std::size_t proposed_ = 0, descended_ = 0;
  bool started_ = false;
  TrainingSet training_;
  std::optional<BoostedTrees> times_; // logarithms
  std::vector<Proposal> batch_;
  std::vector<std::size_t> chosen_; // of the batch
  double chance_ = 1;
  bool chance_known_ = false;
};

// From the times that the model expects of the best candidates, and from how wrong it was, by three-fold
// cross-validation, about trials in the faster half. The best are alike, so that they are not independent:
// they count as a few.
double Learned::chance_of_better() {
  if (chance_known_) return chance_;
  chance_known_ = true;
  if (proposed_ >= points_.size() && complete_) return chance_ = 0;
  constexpr std::size_t folds = 3, enough = 24;
  if (!times_ || trials_.size() < enough) return chance_ = 1;
  std::vector<double> times;
  for (const Tried& t : trials_)
    times.push_back(t.log_seconds);
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  double middle = times[times.size() / 2];
  BoostOptions boost = tree_options();
  boost.trees = 30, boost.learning_rate = .3;
  boost.seed = trials_.size();
  double square = 0;
  std::size_t count = 0;
  for (std::size_t fold = 0; fold < folds; ++fold) {
    TrainingSet set;
    set.rows.columns = rows_.columns;
    for (std::size_t i = 0; i < training_.labels.size(); ++i)
      if (i % folds != fold) {
        std::span<const float> row = training_.rows[i];
        std::copy(row.begin(), row.end(), set.rows.add().begin());
        set.labels.push_back(training_.labels[i]);
      }
    BoostedTrees model = BoostedTrees::train(set, boost);
    for (std::size_t i = fold; i < training_.labels.size(); i += folds)
      if (trials_[i].log_seconds <= middle) {
        double error = model.predict(training_.rows[i]) - static_cast<double>(training_.labels[i]);
        square += error * error;
        ++count;
      }
  }
  double sigma = std::max(count ? std::sqrt(square / static_cast<double>(count)) : 1., 1e-3);
  std::vector<double> expected = times_->predict(rows_), chances;
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!taken_[i])
      chances.push_back(.5 * std::erfc((expected[i] - (best_ + std::log(.98))) / sigma / std::sqrt(2.)));
  std::size_t few = std::min<std::size_t>(4, chances.size());
  std::partial_sort(chances.begin(), chances.begin() + static_cast<std::ptrdiff_t>(few), chances.end(),
                    std::greater<>());
  double no = 1;
  for (std::size_t i = 0; i < few; ++i)
    no *= 1 - chances[i];
  return chance_ = 1 - no;
}

} // namespace

std::unique_ptr<Strategy> make_learned(SearchContext context) { return make_learned(std::move(context), {}); }
std::unique_ptr<Strategy> make_learned(SearchContext context, const LearnedOptions& options) {
  return std::make_unique<Learned>(std::move(context), options);
}

} // namespace kiln::tune
