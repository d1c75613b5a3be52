// Medians of timings and how sure they are.
#pragma once

#include <span>
#include <vector>

namespace kiln::tune {

double median_of(std::vector<double> values); // 0 of nothing

struct Interval {
  double low = 0, high = 0;
};
// An interval that holds the median with a probability of at least 95 %, by order statistics: no assumption
// about the distribution. Of fewer than six values, whose range holds it less often, their range widened to
// twice its width.
Interval median_interval(std::vector<double> values);

// Of samples, those in which nothing came between, if they are half or more; else all.
std::vector<double> undisturbed(std::span<const double> samples, const std::vector<bool>& disturbed);

} // namespace kiln::tune
