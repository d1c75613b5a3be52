// Implements medians and confidence intervals with order statistics.
#include <kiln/autotune/measure/statistics.h>

#include <algorithm>
#include <cmath>

namespace kiln::tune {

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const std::size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle), values.end());
  const double upper = values[middle];
  if (values.size() % 2) return upper;
  return (*std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle)) + upper) /
         2;
}

Interval median_interval(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  if (n < 6) {
    const double widened = (values.back() - values.front()) / 2;
    return {std::max(0.0, values.front() - widened), values.back() + widened};
  }
  // Cut off the k smallest and k largest values, for the largest k with 2 P(Binomial(n, 1/2) < k) <= 5 %.
  double term = std::exp2(-static_cast<double>(n)), below = term;
  std::size_t cut = 0;
  if (n > 1000) { // 2^-n would underflow, so use the normal approximation
    cut = static_cast<std::size_t>(static_cast<double>(n) / 2 - 0.98 * std::sqrt(static_cast<double>(n)));
  } else {
    while (below <= 0.025) {
      ++cut;
      term *= static_cast<double>(n - cut + 1) / static_cast<double>(cut);
      below += term;
    }
  }
  const std::size_t k = cut ? cut - 1 : 0;
  return {values[k], values[n - 1 - k]};
}

std::vector<double> undisturbed(std::span<const double> samples, const std::vector<bool>& disturbed) {
  std::vector<double> calm;
  for (std::size_t i = 0; i < samples.size(); ++i)
    if (!disturbed[i]) calm.push_back(samples[i]);
  if (2 * calm.size() >= samples.size()) return calm;
  return {samples.begin(), samples.end()};
}

} // namespace kiln::tune
