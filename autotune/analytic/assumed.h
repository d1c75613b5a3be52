// What a device should do, by its attributes alone.
#pragma once

#include <kiln/autotune/analytic/machine.h>

namespace kiln::tune {

// Rates that no kernel of Kiln's exceeds, by the device's clocks; those of its architecture's best known
// board stand in for clocks that the driver does not tell.
Machine gpu_limits(const DeviceProperties& gpu);
// What good kernels should reach of them. Seconds of launches are those of no device in particular.
Machine assumed_gpu(const DeviceProperties& gpu);
Machine assumed_cpu(const DeviceProperties& cpu);

} // namespace kiln::tune
