// Computes the cuts between the bins of a column, and the bin of each row.
#include "binned_column.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kiln::tune {

namespace {

// Returns a threshold about halfway between two values, with `low` below it and `high` not below it.
float between(float low, float high) {
  float middle = low / 2 + high / 2;
  return middle > low && middle <= high ? middle : high;
}

} // namespace

BinnedColumn bin_column(const Rows& rows, std::size_t column, int most) {
  BinnedColumn result;
  std::size_t count = rows.size();
  std::vector<float> values;
  values.reserve(count);
  constexpr float largest = std::numeric_limits<float>::max();
  for (std::size_t r = 0; r < count; ++r) {
    float v = rows.values[r * rows.columns + column];
    if (!std::isnan(v)) values.push_back(std::clamp(v, -largest, largest)); // keeps thresholds finite
  }
  std::sort(values.begin(), values.end());
  std::vector<float> distinct = values;
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.size() <= static_cast<std::size_t>(most)) {
    for (std::size_t i = 1; i < distinct.size(); ++i)
      result.cuts.push_back(between(distinct[i - 1], distinct[i]));
  } else { // quantiles
    for (int b = 1; b < most; ++b) {
      std::size_t at = values.size() * static_cast<std::size_t>(b) / static_cast<std::size_t>(most);
      auto first = std::lower_bound(values.begin(), values.end(), values[at]);
      if (first == values.begin()) continue;
      float cut = between(*(first - 1), *first);
      if (result.cuts.empty() || cut > result.cuts.back()) result.cuts.push_back(cut);
    }
  }
  result.bins.resize(count);
  for (std::size_t r = 0; r < count; ++r) {
    float v = rows.values[r * rows.columns + column];
    auto cut = std::upper_bound(result.cuts.begin(), result.cuts.end(), v);
    result.bins[r] = std::isnan(v) ? missing_bin : static_cast<std::uint8_t>(cut - result.cuts.begin());
  }
  return result;
}

} // namespace kiln::tune
