// Follows the machine's speed.
#include <kiln/autotune/measure/drift.h>

#include <kiln/autotune/measure/statistics.h>

#include <algorithm>

namespace kiln::tune {

double DriftAnchor::lately() const {
  const auto count = static_cast<std::ptrdiff_t>(std::min<std::size_t>(3, times_.size()));
  return median_of({times_.end() - count, times_.end()});
}

void remove_drift(Measurement& m, double reference_seconds) {
  if (!m.ok() || m.relative <= 0 || m.seconds <= 0 || reference_seconds <= 0) return;
  const double factor = m.relative * reference_seconds / m.seconds;
  m.seconds *= factor, m.low *= factor, m.high *= factor;
  m.facts["drift"] = 1 / factor;
}

} // namespace kiln::tune
