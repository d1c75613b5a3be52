// Implements a random forest for two classes (Breiman, "Random forests", 2001) with scikit-learn's defaults:
// bootstrapped rows, the square root of the number of columns at each split, entropy, and trees that grow
// until leaves are pure. Helion's search uses it; Kiln's own search uses boosted trees.
#pragma once

#include <kiln/autotune/model/boosted_trees.h>

#include <cstdint>
#include <span>
#include <vector>

namespace kiln::tune {

struct ForestOptions {
  int trees = 100;
  std::uint64_t seed = 0;
};

class Forest {
public:
  // Labels are 0 or 1; empty weights are all 1. Throws UserError for sizes that do not match and for values
  // that are not finite.
  static Forest train(const Rows& rows, std::span<const std::uint8_t> labels, std::span<const double> weights,
                      const ForestOptions& options);
  std::size_t trees() const { return roots_.size(); }
  double probability(std::span<const float> row) const; // of class 1: the mean over all trees
  double probability(std::size_t tree, std::span<const float> row) const;
  std::size_t leaf(std::size_t tree, std::span<const float> row) const; // its index in the forest
  // Returns the columns that a tree tests for a row, in order, each once.
  std::vector<std::size_t> columns_read(std::size_t tree, std::span<const float> row) const;

private:
  struct Node {
    int column = -1; // -1: a leaf
    float threshold = 0;
    std::uint32_t left = 0, right = 0;
    double probability = 0; // of a leaf
  };
  friend class ForestGrower;
  std::size_t columns_ = 0;
  std::vector<Node> nodes_;
  std::vector<std::size_t> roots_;
};

} // namespace kiln::tune
