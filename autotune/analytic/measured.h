// Measures the rates of a device with Kiln's own kernels.
#pragma once

#include <kiln/autotune/analytic/machine.h>

namespace kiln::tune {

// Takes about a second. Throws Stopped (timed.h), and the errors of launches.
Machine measure_cpu(Device device, const Stop& stop);

// Measures a CUDA device in about two seconds. Rates that cannot be measured or are not plausible are
// assumed; `measured` is false if all rates are. Throws Stopped.
Machine measure_gpu(Device device, const Stop& stop);

// Returns whether a measured rate is plausible: at least 0.3 of the assumed rate, and at most 1.05 of what
// the clocks allow, since they vary. Other rates come from a device that is throttled, shared or broken, or
// from a kernel that did not run.
bool is_believable(double rate, double assumed, double limit);
// Returns whether measured seconds are within a factor of ten of the assumed ones; no clock bounds them.
bool are_believable(double seconds, double assumed);

} // namespace kiln::tune
