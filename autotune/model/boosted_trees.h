// Gradient-boosted regression trees over histograms (Friedman, "Greedy function approximation: a gradient
// boosting machine", 2001; second-order gains as in Chen and Guestrin, "XGBoost", KDD 2016): small, single-
// threaded and deterministic, for tables of tens to some ten thousand rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::tune {

// Rows of the same number of columns; NaN is a missing value.
struct Rows {
  std::size_t columns = 0;
  std::vector<float> values; // row-major
  std::size_t size() const { return columns ? values.size() / columns : 0; }
  std::span<const float> operator[](std::size_t row) const {
    return {values.data() + row * columns, columns};
  }
  std::span<float> add() {
    values.resize(values.size() + columns);
    return {values.data() + values.size() - columns, columns};
  }
};

enum class Objective : std::uint8_t {
  squared,  // predicts the label
  logistic, // predicts the log-odds that a label of 0 or 1 is 1
  pairwise, // orders rows of a group by label, larger first (RankNet, Burges et al. 2005)
};

struct BoostOptions {
  Objective objective = Objective::squared;
  int trees = 60, depth = 4, bins = 64; // at most 255 bins
  double learning_rate = 0.2, l2 = 1, least_gain = 0, least_weight = 1;
  double row_share = 1, column_share = 1; // of each tree; below 1 they are drawn by `seed`
  std::uint64_t seed = 0;
};

struct TrainingSet {
  Rows rows;
  std::vector<float> labels;
  std::vector<float> weights; // empty: all 1
  std::vector<float> margins; // where the prediction starts, the prior's; empty: all 0
  std::vector<int> groups;    // of `pairwise`; empty: one group
};

class BoostedTrees {
public:
  // UserError for sizes that do not fit together, labels or margins that are not finite, and options out of
  // range. Without rows, or with labels that are all alike, it predicts one value everywhere.
  static BoostedTrees train(const TrainingSet& set, const BoostOptions& options);
  // The sum of the trees, without a margin.
  double predict(std::span<const float> row) const;
  std::vector<double> predict(const Rows& rows) const;
  // What each column contributed to one prediction (Saabas): with `bias` they add up to it.
  std::vector<double> contributions(std::span<const float> row, double* bias = nullptr) const;
  std::vector<double> importance() const; // gain of each column's splits, adding up to 1
  std::string to_json() const;
  static BoostedTrees from_json(std::string_view text); // UserError if it is not one

private:
  struct Node {      // of a tree in preorder
    int column = -1; // -1: a leaf
    float threshold = 0;
    int left = 0, right = 0; // their places in nodes_
    bool missing_left = true;
    float value = 0; // of a leaf, learning rate included; elsewhere what a leaf here would have
  };
  friend class TreeGrower;
  std::size_t columns_ = 0;
  std::vector<Node> nodes_;
  std::vector<int> roots_;    // the first tree is one leaf, where all predictions start
  std::vector<double> gains_; // of each column
};

} // namespace kiln::tune
