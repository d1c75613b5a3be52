// Converts a task to the workload that is sent to the measuring processes.
#pragma once

#include <kiln/autotune/measure/workload.h>
#include <kiln/autotune/run/task.h>

namespace kiln::tune {

// The task's argument words provide extents, strides and scalars and, if the task has data, the values of
// integer data and which arguments share memory. Throws UserError for a raw pointer if the size of the memory
// behind it is unknown.
Workload workload_of(const Task& task);

} // namespace kiln::tune
