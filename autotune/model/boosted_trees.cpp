// Growing boosted trees, and what they predict.
#include <kiln/autotune/model/boosted_trees.h>

#include <kiln/autotune/random.h>
#include <kiln/dsl/error.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kiln::tune {

namespace {

constexpr std::uint8_t missing_bin = 255;

// A column of the training rows in few steps: `bins` of each row, and between steps the thresholds.
struct BinnedColumn {
  std::vector<std::uint8_t> bins;
  std::vector<float> cuts; // a value below cuts[b] is in step b or lower
  std::size_t steps() const { return cuts.size() + 1; }
};

// Halfway between two values, such that `low` is below it and `high` is not.
float between(float low, float high) {
  float middle = low / 2 + high / 2;
  return middle > low && middle <= high ? middle : high;
}

BinnedColumn bin_column(const Rows& rows, std::size_t column, int most) {
  BinnedColumn result;
  std::size_t count = rows.size();
  std::vector<float> values;
  values.reserve(count);
  constexpr float largest = std::numeric_limits<float>::max();
  for (std::size_t r = 0; r < count; ++r) {
    float v = rows.values[r * rows.columns + column];
    if (!std::isnan(v)) values.push_back(std::clamp(v, -largest, largest)); // thresholds stay finite
  }
  std::sort(values.begin(), values.end());
  std::vector<float> distinct = values;
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.size() <= static_cast<std::size_t>(most)) {
    for (std::size_t i = 1; i < distinct.size(); ++i)
      result.cuts.push_back(between(distinct[i - 1], distinct[i]));
  } else { // quantiles
    for (int b = 1; b < most; ++b) {
      std::size_t at = values.size() * static_cast<std::size_t>(b) / static_cast<std::size_t>(most);
      auto first = std::lower_bound(values.begin(), values.end(), values[at]);
      if (first == values.begin()) continue;
      float cut = between(*(first - 1), *first);
      if (result.cuts.empty() || cut > result.cuts.back()) result.cuts.push_back(cut);
    }
  }
  result.bins.resize(count);
  for (std::size_t r = 0; r < count; ++r) {
    float v = rows.values[r * rows.columns + column];
    auto cut = std::upper_bound(result.cuts.begin(), result.cuts.end(), v);
    result.bins[r] = std::isnan(v) ? missing_bin : static_cast<std::uint8_t>(cut - result.cuts.begin());
  }
  return result;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Gradient {
  double first = 0, second = 0;
  Gradient& operator+=(const Gradient& other) {
    first += other.first, second += other.second;
    return *this;
  }
  Gradient operator-(const Gradient& other) const { return {first - other.first, second - other.second}; }
};

struct Split {
  double gain = 0;
  int column = -1;
  std::size_t cut = 0; // how many steps go left; none: all known values go right
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
      refuse(fmt::format("row {} has label {}, margin {} and weight {}; give finite ones, and weights of at "
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
      : set_(set), options_(options), random_(options.seed), count_(set.rows.size()), gradients_(count_),
        scores_(count_) {
    for (std::size_t c = 0; c < set.rows.columns; ++c)
      columns_.push_back(bin_column(set.rows, c, options.bins));
    for (std::size_t r = 0; r < count_; ++r)
      scores_[r] = set.margins.empty() ? 0 : static_cast<double>(set.margins[r]);
    if (options.objective == Objective::pairwise) group_rows();
  }

  BoostedTrees grow() {
    model_.columns_ = set_.rows.columns;
    model_.gains_.assign(model_.columns_, 0);
    add_start();
    for (int t = 0; t < options_.trees && count_ > 0; ++t) {
      compute_gradients();
      draw();
      if (rows_.empty()) break;
      model_.roots_.push_back(static_cast<int>(model_.nodes_.size()));
      grow_node(0, rows_.size(), 0);
      add_left_out();
    }
    return std::move(model_);
  }

private:
  float weight(std::size_t row) const { return set_.weights.empty() ? 1 : set_.weights[row]; }

  // The best constant, by Newton's method.
  void add_start() {
    double start = 0;
    if (options_.objective == Objective::squared || options_.objective == Objective::logistic) {
      for (int step = 0; step < (options_.objective == Objective::squared ? 1 : 8); ++step) {
        Gradient sum;
        compute_gradients();
        for (const Gradient& g : gradients_)
          sum += g;
        // All labels alike have their best log-odds at infinity: stop on the way.
        double change = sum.second > 1e-9 ? std::clamp(-sum.first / sum.second, -4., 4.) : 0;
        if (options_.objective == Objective::squared && sum.second > 0) change = -sum.first / sum.second;
        if (options_.objective == Objective::logistic) change = std::clamp(start + change, -6., 6.) - start;
        start += change;
        for (double& score : scores_)
          score += change;
      }
    }
    BoostedTrees::Node leaf;
    leaf.value = static_cast<float>(start);
    for (double& score : scores_)
      score += static_cast<double>(leaf.value) - start;
    model_.roots_.push_back(0);
    model_.nodes_.push_back(leaf);
  }

  void compute_gradients() {
    if (options_.objective == Objective::pairwise) return compute_pair_gradients();
    for (std::size_t r = 0; r < count_; ++r) {
      double w = static_cast<double>(weight(r)), y = static_cast<double>(set_.labels[r]);
      if (options_.objective == Objective::squared) {
        gradients_[r] = {w * (scores_[r] - y), w};
      } else {
        double p = sigmoid(scores_[r]);
        gradients_[r] = {w * (p - y), w * std::max(p * (1 - p), 1e-16)};
      }
    }
  }

  // Rows of a group beside each other.
  void group_rows() {
    group_order_.resize(count_);
    std::iota(group_order_.begin(), group_order_.end(), std::size_t{0});
    if (!set_.groups.empty())
      std::stable_sort(group_order_.begin(), group_order_.end(),
                       [&](std::size_t a, std::size_t b) { return set_.groups[a] < set_.groups[b]; });
  }

  // All pairs of small groups; of larger ones each row and some others, new ones for each tree.
  void compute_pair_gradients() {
    constexpr std::size_t most_pairs = 48;
    std::fill(gradients_.begin(), gradients_.end(), Gradient{});
    for (std::size_t begin = 0, end; begin < count_; begin = end) {
      end = begin + 1;
      while (end < count_ &&
             (set_.groups.empty() || set_.groups[group_order_[end]] == set_.groups[group_order_[begin]]))
        ++end;
      std::size_t size = end - begin;
      for (std::size_t i = begin; i < end; ++i) {
        if (size <= 2 * most_pairs) {
          for (std::size_t j = i + 1; j < end; ++j)
            add_pair(group_order_[i], group_order_[j], 1. / static_cast<double>(size));
        } else {
          for (std::size_t k = 0; k < most_pairs; ++k)
            add_pair(group_order_[i], group_order_[begin + random_.below(size)], .5 / most_pairs);
        }
      }
    }
  }

  void add_pair(std::size_t a, std::size_t b, double share) {
    if (set_.labels[a] == set_.labels[b]) return;
    if (set_.labels[a] < set_.labels[b]) std::swap(a, b);
    double wrong = sigmoid(scores_[b] - scores_[a]);
    double w = share * static_cast<double>(weight(a)) * static_cast<double>(weight(b));
    Gradient g{w * wrong, w * std::max(wrong * (1 - wrong), 1e-16)};
    gradients_[a] += {-g.first, g.second};
    gradients_[b] += g;
  }

  // Which rows and columns the next tree sees.
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

  // The node of rows_[begin, end); they are put in the order of their leaves.
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

  // Takes the best split of a column if it beats `best`. Between two steps that have rows the cut is in the
  // middle of those that have none.
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
      // Columns that split alike differ by rounding: the first of them is taken.
      if (gain > 1e-12 && gain > best.gain * (1 + 1e-9)) best = {gain, column_index, cut, missing_left};
    };
    Gradient left;
    std::size_t last = steps; // the last step with rows
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
    if (missing_count > 0 && last < steps) consider(missing, 0, true); // what is known against what is not
    consider(left, last, false);                                       // what is known against what is not
  }

  // Rows that the tree did not see have its prediction too.
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
  std::vector<Gradient> gradients_;
  std::vector<double> scores_;
  std::vector<std::size_t> group_order_;
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

double BoostedTrees::predict(std::span<const float> row) const {
  if (row.size() != columns_)
    internal_error(fmt::format("boosted trees of {} columns, asked about a row of {}", columns_, row.size()));
  double sum = 0;
  for (int root : roots_) {
    const Node* node = &nodes_[static_cast<std::size_t>(root)];
    while (node->column >= 0) {
      float v = row[static_cast<std::size_t>(node->column)];
      bool left = std::isnan(v) ? node->missing_left : v < node->threshold;
      node = &nodes_[static_cast<std::size_t>(left ? node->left : node->right)];
    }
    sum += static_cast<double>(node->value);
  }
  return sum;
}

// As above for one row, but a tree at a time for several rows, without branches that cannot be foreseen.
std::vector<double> BoostedTrees::predict(const Rows& rows) const {
  struct Step {
    std::int32_t column;
    float threshold;
    std::int32_t next[2]; // right, left
    bool missing_left;
  };
  std::vector<double> sums(rows.size(), 0);
  if (rows.size() == 0) return sums;
  if (rows.columns != columns_)
    internal_error(
        fmt::format("boosted trees of {} columns, asked about rows of {}", columns_, rows.columns));
  std::vector<Step> steps(nodes_.size());
  std::vector<int> depths(nodes_.size(), 0);
  for (std::size_t i = nodes_.size(); i-- > 0;) { // children come after their parents
    const Node& n = nodes_[i];
    auto self = static_cast<std::int32_t>(i);
    steps[i] = n.column < 0 ? Step{0, 0, {self, self}, true}
                            : Step{n.column, n.threshold, {n.right, n.left}, n.missing_left};
    if (n.column >= 0)
      depths[i] =
          1 + std::max(depths[static_cast<std::size_t>(n.left)], depths[static_cast<std::size_t>(n.right)]);
  }
  constexpr std::size_t block = 8;
  for (std::size_t begin = 0; begin < rows.size(); begin += block) {
    std::size_t count = std::min(block, rows.size() - begin);
    const float* row[block];
    for (std::size_t i = 0; i < block; ++i)
      row[i] = rows.values.data() + (begin + std::min(i, count - 1)) * columns_;
    for (int root : roots_) {
      std::int32_t at[block];
      std::fill_n(at, block, root);
      for (int level = depths[static_cast<std::size_t>(root)]; level > 0; --level)
        for (std::size_t i = 0; i < block; ++i) {
          const Step& s = steps[static_cast<std::size_t>(at[i])];
          float v = row[i][s.column];
          bool left = (v < s.threshold) | ((v != v) & s.missing_left);
          at[i] = s.next[left];
        }
      for (std::size_t i = 0; i < count; ++i)
        sums[begin + i] += static_cast<double>(nodes_[static_cast<std::size_t>(at[i])].value);
    }
  }
  return sums;
}

std::vector<double> BoostedTrees::contributions(std::span<const float> row, double* bias) const {
  if (row.size() != columns_)
    internal_error(fmt::format("boosted trees of {} columns, asked about a row of {}", columns_, row.size()));
  std::vector<double> result(columns_, 0);
  double start = 0;
  for (int root : roots_) {
    const Node* node = &nodes_[static_cast<std::size_t>(root)];
    start += static_cast<double>(node->value);
    while (node->column >= 0) {
      auto column = static_cast<std::size_t>(node->column);
      bool left = std::isnan(row[column]) ? node->missing_left : row[column] < node->threshold;
      const Node* next = &nodes_[static_cast<std::size_t>(left ? node->left : node->right)];
      result[column] += static_cast<double>(next->value) - static_cast<double>(node->value);
      node = next;
    }
  }
  if (bias) *bias = start;
  return result;
}

std::vector<double> BoostedTrees::importance() const {
  std::vector<double> result = gains_;
  double sum = std::accumulate(result.begin(), result.end(), 0.);
  if (sum > 0)
    for (double& share : result)
      share /= sum;
  return result;
}

std::string BoostedTrees::to_json() const {
  nlohmann::json nodes = nlohmann::json::array();
  for (const Node& n : nodes_) {
    if (n.column < 0)
      nodes.push_back({n.value});
    else
      nodes.push_back({n.value, n.column, n.threshold, n.left, n.right, n.missing_left}); // -infinity: null
  }
  return nlohmann::json{
      {"version", 1}, {"columns", columns_}, {"roots", roots_}, {"gains", gains_}, {"nodes", nodes}}
      .dump();
}

BoostedTrees BoostedTrees::from_json(std::string_view text) {
  auto refuse = [](const std::string& what) {
    throw UserError("boosted trees: " + what + "; train them again");
  };
  BoostedTrees model;
  try {
    nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("version") != 1) refuse("of another version: " + json.at("version").dump());
    auto number = [&](const nlohmann::json& value, double least, double most) {
      if (!value.is_number()) refuse("a number is missing");
      double v = value.get<double>();
      if (!(v >= least && v <= most)) refuse(fmt::format("a number out of range, {}", v));
      return v;
    };
    constexpr double largest = std::numeric_limits<float>::max();
    model.columns_ = static_cast<std::size_t>(number(json.at("columns"), 0, 1 << 20));
    for (const nlohmann::json& gain : json.at("gains"))
      model.gains_.push_back(number(gain, 0, std::numeric_limits<double>::max()));
    if (model.gains_.size() != model.columns_) refuse("not as many gains as columns");
    const nlohmann::json& nodes = json.at("nodes");
    double count = static_cast<double>(nodes.size());
    if (count > 1 << 24) refuse("too many nodes");
    for (const nlohmann::json& node : nodes) {
      double at = static_cast<double>(model.nodes_.size());
      Node n;
      n.value = static_cast<float>(number(node.at(0), -largest, largest));
      if (node.size() != 1) {
        if (node.size() != 6) refuse("a node that is neither a leaf nor a split");
        n.column = static_cast<int>(number(node.at(1), 0, static_cast<double>(model.columns_) - 1));
        n.threshold = node.at(2).is_null() ? -std::numeric_limits<float>::infinity()
                                           : static_cast<float>(number(node.at(2), -largest, largest));
        n.left = static_cast<int>(number(node.at(3), at + 1, count - 1)); // later ones only: no circles
        n.right = static_cast<int>(number(node.at(4), at + 1, count - 1));
        n.missing_left = node.at(5).get<bool>();
      }
      model.nodes_.push_back(n);
    }
    for (const nlohmann::json& root : json.at("roots"))
      model.roots_.push_back(static_cast<int>(number(root, 0, count - 1)));
  } catch (const nlohmann::json::exception& e) {
    refuse(e.what());
  }
  return model;
}

} // namespace kiln::tune
