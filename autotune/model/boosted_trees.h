// Implements gradient-boosted regression trees over histograms.
//
// The method is that of Friedman, "Greedy function approximation: a gradient boosting machine", 2001, with
// second-order gains as in Chen and Guestrin, "XGBoost", KDD 2016. The implementation is small,
// single-threaded and deterministic, for tables of tens to some ten thousand rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::tune {

// Rows with the same number of columns; NaN is a missing value.
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
  double row_share = 1, column_share = 1; // fractions that each tree uses; below 1 they are drawn with `seed`
  std::uint64_t seed = 0;
};

struct TrainingSet {
  Rows rows;
  std::vector<float> labels;
  std::vector<float> weights; // empty: all 1
  std::vector<float> margins; // the initial predictions, e.g. of the prior; empty: all 0
  std::vector<int> groups;    // for `pairwise`; empty: one group
};

class BoostedTrees {
public:
  // Throws UserError for sizes that do not match, labels or margins that are not finite, and options out of
  // range. Without rows, or if all labels are equal, the model predicts one value everywhere.
  static BoostedTrees train(const TrainingSet& set, const BoostOptions& options);
  // Returns the sum of the trees, without a margin.
  double predict(std::span<const float> row) const;
  std::vector<double> predict(const Rows& rows) const;
  // Returns the contribution of each column to one prediction (Saabas); together with `bias` they sum to the
  // prediction.
  std::vector<double> contributions(std::span<const float> row, double* bias = nullptr) const;
  std::vector<double> importance() const; // gain of each column's splits, normalised to a sum of 1
  std::string to_json() const;
  static BoostedTrees from_json(std::string_view text); // throws UserError if it is invalid

private:
  struct Node {      // the nodes of a tree are in preorder
    int column = -1; // -1: a leaf
    float threshold = 0;
    int left = 0, right = 0; // indices in nodes_
    bool missing_left = true;
    float value = 0; // of a leaf, learning rate included; in inner nodes the value that a leaf would have
  };
  friend class TreeGrower;
  std::size_t columns_ = 0;
  std::vector<Node> nodes_;
  std::vector<int> roots_;    // the first tree is a single leaf with the initial prediction
  std::vector<double> gains_; // one per column
};

} // namespace kiln::tune
