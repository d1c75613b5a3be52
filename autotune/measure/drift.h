// How fast the machine is while a run goes on: clocks and neighbours change it by a tenth and more.
//
// The reference is timed again every few trials. A trial's time over the reference's of the same minute does
// not depend on the minute, so trials are compared by that: as seconds of the machine as it was when the run
// began.
#pragma once

#include <kiln/autotune/space/trial.h>

#include <vector>

namespace kiln::tune {

class DriftAnchor {
public:
  void add(double seconds) { times_.push_back(seconds); } // of the reference
  bool empty() const { return times_.empty(); }
  double last() const { return times_.empty() ? 0 : times_.back(); }
  // The median of the last three: what came between during one of them does not count. Within a factor of
  // three of the first, since no machine's speed changes by more.
  double lately() const;

private:
  std::vector<double> times_;
};

// Seconds and interval as they would have been when the reference took `reference_seconds`; for what has no
// ratio to it, they stay. By how much the machine was slower becomes the fact "drift".
void remove_drift(Measurement& m, double reference_seconds);

// What to take for the reference's seconds where some were timed by turns with it, so that none takes less
// than its quickest sample did: what used the CPUs meanwhile may have slowed the reference more than others.
double credible_reference(const std::vector<Measurement>& timed, double reference_seconds);

} // namespace kiln::tune
