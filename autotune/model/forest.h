// A random forest that tells two classes apart (Breiman, "Random forests", 2001), as scikit-learn grows it by
// default: bootstrapped rows, the square root of the columns at each split, entropy, trees until leaves are
// pure. What Helion's search learns with; Kiln's own uses boosted trees.
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
  // Labels are 0 or 1; weights empty: all 1. UserError for sizes that do not fit together, and for values
  // that are not finite.
  static Forest train(const Rows& rows, std::span<const std::uint8_t> labels, std::span<const double> weights,
                      const ForestOptions& options);
  std::size_t trees() const { return roots_.size(); }
  double probability(std::span<const float> row) const; // of class 1: the mean of the trees'
  double probability(std::size_t tree, std::span<const float> row) const;
  std::size_t leaf(std::size_t tree, std::span<const float> row) const; // its number in the forest
  // The columns that a tree asks about on the way of a row, in order, each once.
  std::vector<std::size_t> asked(std::size_t tree, std::span<const float> row) const;

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
