// Derives the rates that a device should reach from its attributes alone.
#pragma once

#include <kiln/autotune/analytic/machine.h>

namespace kiln::tune {

// Rates that no kernel of Kiln exceeds, derived from the device's clocks. For clocks that the driver does not
// report, those of the best-known board of the architecture are used.
Machine gpu_limits(const DeviceProperties& gpu);
// Rates that good kernels should reach. The times of launches are generic, not those of a particular device.
Machine assumed_gpu(const DeviceProperties& gpu);
Machine assumed_cpu(const DeviceProperties& cpu);

} // namespace kiln::tune
