// Corrects timings for drift of the machine's speed.
//
// Clocks and other virtual machines change the speed by 10 % and more.
//
// The reference is timed again every few trials. A trial's time relative to the reference's time at that
// moment does not depend on the moment, so trials are compared by it. It is converted to seconds by the
// reference's time at the beginning of the run.
#pragma once

#include <kiln/autotune/space/trial.h>

#include <vector>

namespace kiln::tune {

class DriftAnchor {
public:
  void add(double seconds) { times_.push_back(seconds); } // a time of the reference
  bool empty() const { return times_.empty(); }
  double last() const { return times_.empty() ? 0 : times_.back(); }
  // Returns the median of the last three times, so that one disturbed time has no effect. The result is
  // clamped to a factor of three around the first time, since no machine's speed changes by more.
  double recent() const;

private:
  std::vector<double> times_;
};

// Converts seconds and interval to what they would have been when the reference took `reference_seconds`.
// Measurements without a relative time stay unchanged. The factor by which the machine was slower becomes the
// fact "drift".
void remove_drift(Measurement& m, double reference_seconds);

// Corrects the reference's seconds from measurements that were interleaved with it, so that none takes less
// time than its quickest sample. Other load on the CPUs may have slowed the reference more than the others.
double credible_reference(const std::vector<Measurement>& timed, double reference_seconds);

} // namespace kiln::tune
