// What a device does, by kernels of Kiln's own.
#pragma once

#include <kiln/autotune/analytic/machine.h>

namespace kiln::tune {

// About a second. Throws Stopped (timed.h), and what launches throw.
Machine measure_cpu(Device device, const Stop& stop);

} // namespace kiln::tune
