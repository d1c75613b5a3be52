// Provides random rows and functions to learn for the tests of models.
#pragma once

#include <kiln/autotune/model/boosted_trees.h>
#include <kiln/autotune/random.h>

#include <cmath>
#include <vector>

namespace kiln::test {

inline tune::Rows random_rows(tune::Random& random, std::size_t count, std::size_t columns,
                              std::size_t values = 0) {
  tune::Rows rows;
  rows.columns = columns;
  for (std::size_t i = 0; i < count; ++i)
    for (float& v : rows.add())
      v = values ? static_cast<float>(random.below(values)) : static_cast<float>(random.uniform());
  return rows;
}

// A function with interactions and a jump, of at least four columns between 0 and 1.
inline float bumpy(std::span<const float> row) {
  return 2 * row[0] * row[1] + std::sin(6 * row[2]) + (row[3] > .6f && row[0] > .3f ? 1.5f : 0.f);
}

// Returns Kendall's tau-b of two lists.
inline double kendall(std::span<const double> a, std::span<const double> b) {
  double both = 0, in_a = 0, in_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      int x = (a[i] > a[j]) - (a[i] < a[j]), y = (b[i] > b[j]) - (b[i] < b[j]);
      both += x * y, in_a += x * x, in_b += y * y;
    }
  return both / std::sqrt(in_a * in_b);
}

} // namespace kiln::test
