// What of a task goes to the processes that measure it.
#pragma once

#include <kiln/autotune/measure/workload.h>
#include <kiln/autotune/run/task.h>

namespace kiln::tune {

// Its words give extents, strides, numbers, and where it is live what integers hold and which arguments share
// memory. UserError for a raw pointer if nothing tells how much is behind it.
Workload workload_of(const Task& task);

} // namespace kiln::tune
