// Checks a task before anything is measured.
#pragma once

#include <kiln/autotune/run/task.h>

#include <string>

namespace kiln::tune {

// Throws UserError if a size of the task's problem is 0, if the compile policy forbids compiling, or if the
// kernel makes pointers from numbers.
void check_tunable(const Task& task);

// Throws UserError for a tolerance that is none, and for a reference kernel whose parameters differ from the
// kernel's. Both take what TunedOptions and TuneOptions say.
void check_comparison(const Task& task);

// Throws UserError for a key (TuneOptions::key) that is too long to be stored with each trial.
void check_key(const std::string& key);

// Returns a warning if all outputs are ignored, so that no config can be wrong; else nothing.
std::string warning_of_ignored(const Task& task);

} // namespace kiln::tune
