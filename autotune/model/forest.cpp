// Grows random forests and computes their probabilities.
#include <kiln/autotune/model/forest.h>

#include <kiln/autotune/random.h>
#include <kiln/dsl/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kiln::tune {

namespace {

struct Weights {
  double no = 0, yes = 0;
  double sum() const { return no + yes; }
  // Returns the entropy times the sum of the weights.
  double entropy() const {
    double result = 0;
    for (double w : {no, yes})
      if (w > 0) result -= w * std::log(w / sum());
    return result;
  }
};

} // namespace

class ForestGrower {
public:
  ForestGrower(const Rows& rows, std::span<const std::uint8_t> labels, std::span<const double> weights,
               const ForestOptions& options)
      : rows_(rows), labels_(labels), random_(options.seed), weights_(rows.size()) {
    forest_.columns_ = rows.columns;
    columns_.resize(rows.columns);
    std::iota(columns_.begin(), columns_.end(), std::size_t{0});
    for (int t = 0; t < options.trees && rows.size() > 0; ++t) {
      std::fill(weights_.begin(), weights_.end(), 0.);
      for (std::size_t i = 0; i < rows.size(); ++i) { // once per draw
        std::size_t r = random_.below(rows.size());
        weights_[r] += weights.empty() ? 1 : weights[r];
      }
      order_.clear();
      for (std::size_t r = 0; r < rows.size(); ++r)
        if (weights_[r] > 0) order_.push_back(r);
      forest_.roots_.push_back(forest_.nodes_.size());
      grow();
    }
  }
  Forest take() { return std::move(forest_); }

private:
  struct Work {
    std::size_t node, begin, end;
  };

  void grow() {
    std::vector<Work> open{{add_node(), 0, order_.size()}};
    while (!open.empty()) {
      Work w = open.back();
      open.pop_back();
      std::size_t middle = split(w);
      if (middle == w.begin) continue;
      std::size_t left = add_node(), right = add_node();
      forest_.nodes_[w.node].left = static_cast<std::uint32_t>(left);
      forest_.nodes_[w.node].right = static_cast<std::uint32_t>(right);
      open.push_back({right, middle, w.end});
      open.push_back({left, w.begin, middle});
    }
  }
  std::size_t add_node() {
    forest_.nodes_.emplace_back();
    return forest_.nodes_.size() - 1;
  }

  // Returns where the right part of the rows begins, or w.begin for a leaf.
  std::size_t split(const Work& w) {
    Weights all;
    for (std::size_t i = w.begin; i < w.end; ++i)
      count(all, order_[i]);
    Forest::Node& node = forest_.nodes_[w.node];
    node.probability = all.sum() > 0 ? all.yes / all.sum() : 0;
    if (all.no == 0 || all.yes == 0) return w.begin;

    // Try the square root of the number of columns, and more if the drawn ones are constant.
    auto wanted = static_cast<std::size_t>(std::max(1., std::sqrt(static_cast<double>(columns_.size()))));
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t c = 0, useful = 0; c < columns_.size() && useful < wanted; ++c) {
      std::swap(columns_[c], columns_[c + random_.below(columns_.size() - c)]);
      useful += try_column(w, columns_[c], all, least, node);
    }
    if (node.column < 0) return w.begin;
    auto first = order_.begin() + static_cast<std::ptrdiff_t>(w.begin);
    auto middle =
        std::stable_partition(first, order_.begin() + static_cast<std::ptrdiff_t>(w.end), [&](std::size_t r) {
          return rows_[r][static_cast<std::size_t>(node.column)] <= node.threshold;
        });
    return w.begin + static_cast<std::size_t>(middle - first);
  }

  bool try_column(const Work& w, std::size_t column, const Weights& all, double& least, Forest::Node& node) {
    sorted_.assign(order_.begin() + static_cast<std::ptrdiff_t>(w.begin),
                   order_.begin() + static_cast<std::ptrdiff_t>(w.end));
    auto value = [&](std::size_t r) { return rows_[r][column]; };
    std::sort(sorted_.begin(), sorted_.end(), [&](std::size_t a, std::size_t b) {
      return value(a) != value(b) ? value(a) < value(b) : a < b;
    });
    bool useful = false;
    Weights left;
    for (std::size_t i = 0; i + 1 < sorted_.size(); ++i) {
      count(left, sorted_[i]);
      float here = value(sorted_[i]), next = value(sorted_[i + 1]);
      if (here == next) continue;
      useful = true;
      double entropy = left.entropy() + Weights{all.no - left.no, all.yes - left.yes}.entropy();
      if (entropy >= least) continue;
      least = entropy;
      float middle = here / 2 + next / 2;
      node.column = static_cast<int>(column);
      node.threshold = middle >= here && middle < next ? middle : here;
    }
    return useful;
  }

  void count(Weights& to, std::size_t row) const { (labels_[row] ? to.yes : to.no) += weights_[row]; }

  const Rows& rows_;
  std::span<const std::uint8_t> labels_;
  Random random_;
  std::vector<double> weights_;
  std::vector<std::size_t> order_, sorted_, columns_;
  Forest forest_;
};

Forest Forest::train(const Rows& rows, std::span<const std::uint8_t> labels, std::span<const double> weights,
                     const ForestOptions& options) {
  if (labels.size() != rows.size() || (!weights.empty() && weights.size() != rows.size()))
    throw UserError(fmt::format("random forest: {} labels and {} weights for {} rows", labels.size(),
                                weights.size(), rows.size()));
  for (float v : rows.values)
    if (!std::isfinite(v))
      throw UserError(fmt::format("random forest: the value {} is not finite; give finite values", v));
  for (double w : weights)
    if (!(w >= 0) || !std::isfinite(w))
      throw UserError(
          fmt::format("random forest: the weight {} is not valid; give finite weights of at least 0", w));
  return ForestGrower(rows, labels, weights, options).take();
}

std::size_t Forest::leaf(std::size_t tree, std::span<const float> row) const {
  std::size_t at = roots_[tree];
  while (nodes_[at].column >= 0)
    at = row[static_cast<std::size_t>(nodes_[at].column)] <= nodes_[at].threshold ? nodes_[at].left
                                                                                  : nodes_[at].right;
  return at;
}

double Forest::probability(std::size_t tree, std::span<const float> row) const {
  return nodes_[leaf(tree, row)].probability;
}

double Forest::probability(std::span<const float> row) const {
  double sum = 0;
  for (std::size_t t = 0; t < roots_.size(); ++t)
    sum += probability(t, row);
  return roots_.empty() ? 0 : sum / static_cast<double>(roots_.size());
}

std::vector<std::size_t> Forest::columns_read(std::size_t tree, std::span<const float> row) const {
  std::vector<std::size_t> result;
  std::size_t at = roots_[tree];
  while (nodes_[at].column >= 0) {
    auto column = static_cast<std::size_t>(nodes_[at].column);
    if (std::find(result.begin(), result.end(), column) == result.end()) result.push_back(column);
    at = row[column] <= nodes_[at].threshold ? nodes_[at].left : nodes_[at].right;
  }
  return result;
}

} // namespace kiln::tune
