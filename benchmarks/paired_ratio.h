// Compares two contenders that ran alternately: the ratio of their times, with its confidence interval.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace benchmarks {

struct PairedRatio {
  double mean = 1;          // the geometric mean of the ratios of all pairs
  double low = 1, high = 1; // its 95 % confidence interval
};

// The quantile 0.975 of Student's t distribution, by the expansion of Cornish and Fisher (Abramowitz and
// Stegun, 26.7.5): wrong by less than 0.5 % from 4 degrees of freedom on.
inline double t_quantile(int degrees) {
  const double z = 1.959964, v = degrees, z2 = z * z;
  return z + z * (z2 + 1) / (4 * v) + z * ((5 * z2 + 16) * z2 + 3) / (96 * v * v) +
         z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * v * v * v);
}

// times[i] and reference[i] are of the same pair, one run right after the other, so that what slows the
// machine for longer than a pair cancels. The interval is that of the mean of the logarithms by Student's t.
inline PairedRatio paired_ratio(const std::vector<double>& times, const std::vector<double>& reference) {
  const std::size_t n = times.size();
  if (n < 5) return {1, 0, std::numeric_limits<double>::infinity()};
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < n; ++i)
    sum += std::log(times[i] / reference[i]);
  const double count = static_cast<double>(n), mean = sum / count;
  for (std::size_t i = 0; i < n; ++i) {
    const double away = std::log(times[i] / reference[i]) - mean;
    squares += away * away;
  }
  const double half = t_quantile(static_cast<int>(n) - 1) * std::sqrt(squares / (count - 1) / count);
  return {std::exp(mean), std::exp(mean - half), std::exp(mean + half)};
}

} // namespace benchmarks
