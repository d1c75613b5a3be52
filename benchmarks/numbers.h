// Computes medians and geometric means, and formats times for reading.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace benchmarks {

inline double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

class GeometricMean {
public:
  void add(double x) { logarithms_ += std::log(x), ++count_; }
  double value() const { return count_ ? std::exp(logarithms_ / count_) : 0; } // 0 of no numbers

private:
  double logarithms_ = 0;
  int count_ = 0;
};

// "12.3 us": the unit follows the size.
inline std::string time_text(double seconds) {
  if (seconds < 1e-6) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return fmt::format("{:.2f} ms", seconds * 1e3);
}

} // namespace benchmarks
