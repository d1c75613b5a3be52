// Converts a task to the workload that is sent to the measuring processes.
#pragma once

#include <kiln/autotune/measure/workload.h>
#include <kiln/autotune/run/task.h>

namespace kiln::tune {

// Converts the task's argument words and its contents to arguments. Without given contents, those of an
// argument are made up. If the words hold real addresses, arguments that overlap in the application do so
// here. Throws UserError for a raw pointer if the size of the memory behind it is unknown.
std::vector<Argument> arguments_of(const Task& task);

// Throws what arguments_of throws.
Workload workload_of(const Task& task);

} // namespace kiln::tune
