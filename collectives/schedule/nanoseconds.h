// Defines Nanoseconds, the unit of all times of ranks, and sums that do not overflow.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace kiln::collectives {

using Nanoseconds = std::int64_t;
inline constexpr Nanoseconds never = std::numeric_limits<Nanoseconds>::max();
// What is beyond the range of times is never: sums of times, of which none is negative, and rounded times.
constexpr Nanoseconds later(Nanoseconds time, Nanoseconds by) {
  return by > never - time ? never : time + by;
}
inline Nanoseconds rounded_up(double nanoseconds) {
  const double time = std::ceil(nanoseconds);
  return time < static_cast<double>(never) ? static_cast<Nanoseconds>(time) : never;
}

} // namespace kiln::collectives
