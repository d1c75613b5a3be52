// How far predictions are from what they should be: the gradients that the next tree is grown from.
#pragma once

#include <kiln/autotune/model/boosted_trees.h>
#include <kiln/autotune/random.h>

namespace kiln::tune {

struct Gradient { // of the loss by the score, and its curvature
  double first = 0, second = 0;
  Gradient& operator+=(const Gradient& other) {
    first += other.first, second += other.second;
    return *this;
  }
  Gradient operator-(const Gradient& other) const { return {first - other.first, second - other.second}; }
};

class Gradients {
public:
  Gradients(const TrainingSet& set, Objective objective);
  // Moves `scores` by the constant that is best for them, and returns it.
  double start(std::vector<double>& scores, Random& random);
  // Of each row at these scores. `random` draws the pairs of large groups.
  void compute(const std::vector<double>& scores, Random& random);
  const Gradient& operator[](std::size_t row) const { return gradients_[row]; }

private:
  float weight(std::size_t row) const { return set_.weights.empty() ? 1 : set_.weights[row]; }
  void group_rows();
  void compute_pairs(const std::vector<double>& scores, Random& random);
  void add_pair(const std::vector<double>& scores, std::size_t a, std::size_t b, double share);

  const TrainingSet& set_;
  Objective objective_;
  std::vector<Gradient> gradients_;
  std::vector<std::size_t> group_order_;
};

} // namespace kiln::tune
