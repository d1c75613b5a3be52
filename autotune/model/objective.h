// Computes the gradients of the objectives, from which the next boosted tree is grown.
#pragma once

#include <kiln/autotune/model/boosted_trees.h>
#include <kiln/autotune/random.h>

namespace kiln::tune {

struct Gradient { // of the loss with respect to the score, and its curvature
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
  // Adds the best constant to all `scores`, and returns it.
  double start(std::vector<double>& scores, Random& random);
  // Computes the gradient of each row at these scores. `random` draws the pairs of large groups.
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
