// Implements the gradients of the squared, the logistic and the pairwise objective.
#include "objective.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kiln::tune {

namespace {
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
} // namespace

Gradients::Gradients(const TrainingSet& set, Objective objective)
    : set_(set), objective_(objective), gradients_(set.rows.size()) {
  if (objective == Objective::pairwise) group_rows();
}

// Finds the best constant with Newton's method.
double Gradients::start(std::vector<double>& scores, Random& random) {
  double start = 0;
  if (objective_ == Objective::pairwise) return start; // orders do not depend on a constant
  const bool squared = objective_ == Objective::squared;
  for (int step = 0; step < (squared ? 1 : 8); ++step) {
    Gradient sum;
    compute(scores, random);
    for (const Gradient& g : gradients_)
      sum += g;
    // If all labels are equal, the best log-odds are infinite, so limit them.
    double change = sum.second > 1e-9 ? std::clamp(-sum.first / sum.second, -4., 4.) : 0;
    if (squared && sum.second > 0) change = -sum.first / sum.second;
    if (!squared) change = std::clamp(start + change, -6., 6.) - start;
    start += change;
    for (double& score : scores)
      score += change;
  }
  // Predictions hold the constant in single precision.
  const double rounded = static_cast<double>(static_cast<float>(start));
  for (double& score : scores)
    score += rounded - start;
  return rounded;
}

void Gradients::compute(const std::vector<double>& scores, Random& random) {
  if (objective_ == Objective::pairwise) return compute_pairs(scores, random);
  for (std::size_t r = 0; r < gradients_.size(); ++r) {
    double w = static_cast<double>(weight(r)), y = static_cast<double>(set_.labels[r]);
    if (objective_ == Objective::squared) {
      gradients_[r] = {w * (scores[r] - y), w};
    } else {
      double p = sigmoid(scores[r]);
      gradients_[r] = {w * (p - y), w * std::max(p * (1 - p), 1e-16)};
    }
  }
}

// Makes the rows of each group contiguous.
void Gradients::group_rows() {
  group_order_.resize(gradients_.size());
  std::iota(group_order_.begin(), group_order_.end(), std::size_t{0});
  if (!set_.groups.empty())
    std::stable_sort(group_order_.begin(), group_order_.end(),
                     [&](std::size_t a, std::size_t b) { return set_.groups[a] < set_.groups[b]; });
}

// Uses all pairs in small groups. In larger ones pairs each row with some others, which are drawn again for
// each tree.
void Gradients::compute_pairs(const std::vector<double>& scores, Random& random) {
  constexpr std::size_t most_pairs = 48;
  std::fill(gradients_.begin(), gradients_.end(), Gradient{});
  for (std::size_t begin = 0, end; begin < gradients_.size(); begin = end) {
    end = begin + 1;
    while (end < gradients_.size() &&
           (set_.groups.empty() || set_.groups[group_order_[end]] == set_.groups[group_order_[begin]]))
      ++end;
    std::size_t size = end - begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (size <= 2 * most_pairs) {
        for (std::size_t j = i + 1; j < end; ++j)
          add_pair(scores, group_order_[i], group_order_[j], 1. / static_cast<double>(size));
      } else {
        for (std::size_t k = 0; k < most_pairs; ++k)
          add_pair(scores, group_order_[i], group_order_[begin + random.below(size)], .5 / most_pairs);
      }
    }
  }
}

void Gradients::add_pair(const std::vector<double>& scores, std::size_t a, std::size_t b, double share) {
  if (set_.labels[a] == set_.labels[b]) return;
  if (set_.labels[a] < set_.labels[b]) std::swap(a, b);
  double wrong = sigmoid(scores[b] - scores[a]);
  double w = share * static_cast<double>(weight(a)) * static_cast<double>(weight(b));
  Gradient g{w * wrong, w * std::max(wrong * (1 - wrong), 1e-16)};
  gradients_[a] += {-g.first, g.second};
  gradients_[b] += g;
}

} // namespace kiln::tune
