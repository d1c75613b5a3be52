// Grows boosted trees, each fitted to the gradients at the predictions of the previous ones.
#include "binned_column.h"
#include "objective.h"

#include <kiln/dsl/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kiln::tune {

namespace {

struct Split {
  double gain = 0;
  int column = -1;
  std::size_t cut = 0; // number of bins that go left; 0: all known values go right
  bool missing_left = true;
};

void check_options(const TrainingSet& set, const BoostOptions& o) {
  auto refuse = [](const std::string& what) { throw UserError("boosted trees: " + what); };
  std::size_t rows = set.rows.size();
  if (set.rows.values.size() != rows * set.rows.columns)
    refuse(fmt::format("{} values do not make rows of {} columns", set.rows.values.size(), set.rows.columns));
  if (set.labels.size() != rows) refuse(fmt::format("{} labels for {} rows", set.labels.size(), rows));
  if (!set.weights.empty() && set.weights.size() != rows)
    refuse(fmt::format("{} weights for {} rows", set.weights.size(), rows));
  if (!set.margins.empty() && set.margins.size() != rows)
    refuse(fmt::format("{} margins for {} rows", set.margins.size(), rows));
  if (!set.groups.empty() && set.groups.size() != rows)
    refuse(fmt::format("{} groups for {} rows", set.groups.size(), rows));
  for (std::size_t r = 0; r < rows; ++r) {
    float weight = set.weights.empty() ? 1 : set.weights[r],
          margin = set.margins.empty() ? 0 : set.margins[r];
    if (!std::isfinite(set.labels[r]) || !std::isfinite(margin) || !std::isfinite(weight) || weight < 0)
      refuse(
          fmt::format("row {} has label {}, margin {} and weight {}; give finite values, and weights of at "
                      "least 0",
                      r, set.labels[r], margin, weight));
    if (o.objective == Objective::logistic && (set.labels[r] < 0 || set.labels[r] > 1))
      refuse(fmt::format("row {} has label {}; a logistic objective takes 0 to 1", r, set.labels[r]));
  }
  if (o.trees < 0 || o.depth < 0 || o.depth > 16 || o.bins < 2 || o.bins > 255)
    refuse(fmt::format("{} trees of depth {} with {} bins; give at least 0, 0 to 16 and 2 to 255", o.trees,
                       o.depth, o.bins));
  if (!(o.row_share > 0 && o.row_share <= 1 && o.column_share > 0 && o.column_share <= 1 && o.l2 >= 0 &&
        std::isfinite(o.learning_rate) && std::isfinite(o.l2)))
    refuse(
        fmt::format("row share {}, column share {}, learning rate {}, l2 {}; give shares above 0 and up to "
                    "1, and a penalty of at least 0",
                    o.row_share, o.column_share, o.learning_rate, o.l2));
}

} // namespace

class TreeGrower {
public:
  TreeGrower(const TrainingSet& set, const BoostOptions& options)
      : set_(set), options_(options), random_(options.seed), count_(set.rows.size()),
        gradients_(set, options.objective), scores_(count_) {
    for (std::size_t c = 0; c < set.rows.columns; ++c)
      columns_.push_back(bin_column(set.rows, c, options.bins));
    for (std::size_t r = 0; r < count_; ++r)
      scores_[r] = set.margins.empty() ? 0 : static_cast<double>(set.margins[r]);
  }

  BoostedTrees grow() {
    model_.columns_ = set_.rows.columns;
    model_.gains_.assign(model_.columns_, 0);
    add_start();
    for (int t = 0; t < options_.trees && count_ > 0; ++t) {
      gradients_.compute(scores_, random_);
      draw();
      if (rows_.empty()) break;
      model_.roots_.push_back(static_cast<int>(model_.nodes_.size()));
      grow_node(0, rows_.size(), 0);
      add_left_out();
    }
    return std::move(model_);
  }

private:
  void add_start() {
    BoostedTrees::Node leaf;
    leaf.value = static_cast<float>(gradients_.start(scores_, random_));
    model_.roots_.push_back(0);
    model_.nodes_.push_back(leaf);
  }

  // Draws the rows and columns that the next tree uses.
  void draw() {
    rows_.resize(count_);
    std::iota(rows_.begin(), rows_.end(), std::uint32_t{0});
    left_out_.clear();
    if (options_.row_share < 1) {
      random_.shuffle(rows_);
      auto kept = static_cast<std::size_t>(std::ceil(options_.row_share * static_cast<double>(count_)));
      left_out_.assign(rows_.begin() + static_cast<std::ptrdiff_t>(kept), rows_.end());
      rows_.resize(kept);
      std::sort(rows_.begin(), rows_.end());
    }
    drawn_.resize(columns_.size());
    std::iota(drawn_.begin(), drawn_.end(), 0);
    if (options_.column_share < 1) {
      random_.shuffle(drawn_);
      drawn_.resize(
          static_cast<std::size_t>(std::ceil(options_.column_share * static_cast<double>(columns_.size()))));
      std::sort(drawn_.begin(), drawn_.end());
    }
  }

  double leaf_value(const Gradient& sum) const {
    double weight = sum.second + options_.l2;
    return weight > 0 ? -sum.first / weight : 0;
  }
  double score(const Gradient& sum) const {
    double weight = sum.second + options_.l2;
    return weight > 0 ? sum.first * sum.first / weight : 0;
  }

  // Grows the node of rows_[begin, end), and sorts these rows by their leaves.
  int grow_node(std::size_t begin, std::size_t end, int depth) {
    Gradient sum;
    for (std::size_t i = begin; i < end; ++i)
      sum += gradients_[rows_[i]];
    int at = static_cast<int>(model_.nodes_.size());
    model_.nodes_.emplace_back();
    model_.nodes_.back().value = static_cast<float>(options_.learning_rate * leaf_value(sum));

    Split split;
    if (depth < options_.depth && end - begin > 1)
      for (int column : drawn_)
        find_split(column, begin, end, sum, split);
    if (split.column < 0) {
      double value = static_cast<double>(model_.nodes_[static_cast<std::size_t>(at)].value);
      for (std::size_t i = begin; i < end; ++i)
        scores_[rows_[i]] += value;
      return at;
    }

    const BinnedColumn& column = columns_[static_cast<std::size_t>(split.column)];
    auto goes_left = [&](std::uint32_t row) {
      return column.bins[row] == missing_bin ? split.missing_left : column.bins[row] < split.cut;
    };
    auto first = rows_.begin() + static_cast<std::ptrdiff_t>(begin);
    auto middle = std::stable_partition(first, rows_.begin() + static_cast<std::ptrdiff_t>(end), goes_left);
    auto boundary = begin + static_cast<std::size_t>(middle - first);
    model_.gains_[static_cast<std::size_t>(split.column)] += split.gain;
    int left = grow_node(begin, boundary, depth + 1), right = grow_node(boundary, end, depth + 1);
    BoostedTrees::Node& node = model_.nodes_[static_cast<std::size_t>(at)];
    node.column = split.column;
    node.threshold = split.cut > 0 ? column.cuts[split.cut - 1] : -std::numeric_limits<float>::infinity();
    node.left = left, node.right = right;
    node.missing_left = split.missing_left;
    return at;
  }

  // Takes the best split of a column if it beats `best`. A cut between two bins with rows is placed in the
  // middle of the empty bins between them.
  void find_split(int column_index, std::size_t begin, std::size_t end, const Gradient& sum, Split& best) {
    const BinnedColumn& column = columns_[static_cast<std::size_t>(column_index)];
    std::size_t steps = column.steps();
    std::fill_n(histogram_, steps, Gradient{});
    std::fill_n(counts_, steps, 0u);
    Gradient missing;
    std::uint32_t missing_count = 0;
    for (std::size_t i = begin; i < end; ++i) {
      std::uint8_t bin = column.bins[rows_[i]];
      if (bin == missing_bin) {
        missing += gradients_[rows_[i]];
        ++missing_count;
      } else {
        histogram_[bin] += gradients_[rows_[i]];
        ++counts_[bin];
      }
    }
    double here = score(sum);
    auto consider = [&](const Gradient& left, std::size_t cut, bool missing_left) {
      Gradient right = sum - left;
      if (left.second < options_.least_weight || right.second < options_.least_weight) return;
      double gain = .5 * (score(left) + score(right) - here) - options_.least_gain;
      // Gains of columns that split alike differ by rounding, so the first of them is taken.
      if (gain > 1e-12 && gain > best.gain * (1 + 1e-9)) best = {gain, column_index, cut, missing_left};
    };
    Gradient left;
    std::size_t last = steps; // the last bin with rows
    for (std::size_t step = 0; step < steps; ++step) {
      if (counts_[step] == 0) continue;
      if (last < steps) {
        std::size_t cut = last + 1 + (step - last - 1) / 2;
        if (missing_count == 0) {
          consider(left, cut, left.second >= (sum - left).second);
        } else {
          consider(left, cut, false);
          Gradient with = left;
          consider(with += missing, cut, true);
        }
      }
      left += histogram_[step];
      last = step;
    }
    if (missing_count > 0 && last < steps) consider(missing, 0, true); // known against missing values
    consider(left, last, false);                                       // known against missing values
  }

  // Adds the tree's prediction to rows that the tree did not use.
  void add_left_out() {
    for (std::uint32_t row : left_out_) {
      std::size_t at = static_cast<std::size_t>(model_.roots_.back());
      while (model_.nodes_[at].column >= 0) {
        const BoostedTrees::Node& node = model_.nodes_[at];
        float v = set_.rows.values[row * set_.rows.columns + static_cast<std::size_t>(node.column)];
        bool left = std::isnan(v) ? node.missing_left : v < node.threshold;
        at = static_cast<std::size_t>(left ? node.left : node.right);
      }
      scores_[row] += static_cast<double>(model_.nodes_[at].value);
    }
  }

  const TrainingSet& set_;
  const BoostOptions& options_;
  Random random_;
  std::size_t count_;
  std::vector<BinnedColumn> columns_;
  Gradients gradients_;
  std::vector<double> scores_;
  std::vector<std::uint32_t> rows_, left_out_;
  std::vector<int> drawn_;
  Gradient histogram_[255];
  std::uint32_t counts_[255];
  BoostedTrees model_;
};

BoostedTrees BoostedTrees::train(const TrainingSet& set, const BoostOptions& options) {
  check_options(set, options);
  return TreeGrower(set, options).grow();
}

} // namespace kiln::tune
