// Computes predictions of boosted trees, and the contributions of columns to them.
#include <kiln/autotune/model/boosted_trees.h>

#include <kiln/dsl/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kiln::tune {

double BoostedTrees::predict(std::span<const float> row) const {
  if (row.size() != columns_)
    internal_error(fmt::format("boosted trees of {} columns got a row of {}", columns_, row.size()));
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

// Like predict for one row, but processes several rows per tree, without unpredictable branches.
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
    internal_error(fmt::format("boosted trees of {} columns got rows of {}", columns_, rows.columns));
  std::vector<Step> steps(nodes_.size());
  std::vector<int> depths(nodes_.size(), 0);
  for (std::size_t i = nodes_.size(); i-- > 0;) { // children have larger indices than their parents
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
    internal_error(fmt::format("boosted trees of {} columns got a row of {}", columns_, row.size()));
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

} // namespace kiln::tune
