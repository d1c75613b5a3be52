// Follows the machine's speed and converts timings to that of the run's beginning.
#include <kiln/autotune/measure/drift.h>

#include <kiln/autotune/measure/statistics.h>

#include <algorithm>

namespace kiln::tune {

namespace {

constexpr double most_drift = 3; // times faster or slower than at first; beyond, the reference was mistimed

} // namespace

double DriftAnchor::recent() const {
  if (times_.empty()) return 0;
  const auto count = static_cast<std::ptrdiff_t>(std::min<std::size_t>(3, times_.size()));
  const double first = times_.front();
  return std::clamp(median_of({times_.end() - count, times_.end()}), first / most_drift, first * most_drift);
}

void remove_drift(Measurement& m, double reference_seconds) {
  if (!m.ok() || m.relative <= 0 || m.seconds <= 0 || reference_seconds <= 0) return;
  const double factor = m.relative * reference_seconds / m.seconds;
  m.seconds *= factor, m.low *= factor, m.high *= factor;
  m.facts["drift"] = 1 / factor;
}

double credible_reference(const std::vector<Measurement>& timed, double reference_seconds) {
  for (const Measurement& m : timed) {
    const auto quickest = m.facts.find("quickest");
    if (m.ok() && m.relative > 0 && quickest != m.facts.end())
      reference_seconds = std::max(reference_seconds, quickest->second / m.relative);
  }
  return reference_seconds;
}

} // namespace kiln::tune
