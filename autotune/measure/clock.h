// Defines the clock of measurements and deadlines.
#pragma once

#include <chrono>

namespace kiln::tune {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
// Returns the point in time that is `seconds` from now, or the largest one for 1e9 seconds and more.
inline Clock::time_point in(double seconds) {
  if (!(seconds < 1e9)) return Clock::time_point::max();
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

} // namespace kiln::tune
