// What a device does, by kernels of Kiln's own.
#pragma once

#include <kiln/autotune/analytic/machine.h>

namespace kiln::tune {

// About a second. Throws Stopped (timed.h), and what launches throw.
Machine measure_cpu(Device device, const Stop& stop);

// Of a CUDA device, about two seconds. What cannot be measured, or is not to be believed, is as assumed;
// `measured` is false where all rates are. Throws Stopped.
Machine measure_gpu(Device device, const Stop& stop);

// A rate from somewhat less than is assumed (0.3 of it) to what the clocks allow, and a little more since
// they vary (1.05 of it). Others come from a device that is throttled, shared or broken, or from no kernel
// that ran.
bool is_believable(double rate, double assumed, double limit);
// Seconds within a factor of ten of what is assumed, since no clock bounds them.
bool are_believable(double seconds, double assumed);

} // namespace kiln::tune
