// Computes medians of timings and their confidence intervals.
#pragma once

#include <span>
#include <vector>

namespace kiln::tune {

double median_of(std::vector<double> values); // 0 if there are none

struct Interval {
  double low = 0, high = 0;
};
// Returns an interval that contains the median with a probability of at least 95 %. It uses order statistics,
// without an assumption about the distribution. The range of fewer than six values contains the median less
// often; it is widened to twice its width.
Interval median_interval(std::vector<double> values);

// Returns the undisturbed samples if they are at least half of all, else all samples.
std::vector<double> undisturbed(std::span<const double> samples, const std::vector<bool>& disturbed);

} // namespace kiln::tune
