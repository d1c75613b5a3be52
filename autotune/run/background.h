// Runs the searches of mode `online`, one at a time, in a background thread that uses few resources.
#pragma once

#include <kiln/autotune/run/task.h>
#include <kiln/autotune/run/tuner.h>

#include <functional>

namespace kiln::tune {

// Queues a search for the task. It must not read the memory of the task's arguments, so Task::has_data is
// ignored. `present` is the config that the program uses. `found` is called on the background thread with the
// winner, if that is `present` or was confirmed to be faster than it. A task that this process has queued or
// searched before is ignored. At process exit the running measurement is interrupted, and exit waits only for
// that. A forked child has its own searches.
void search_in_background(Task task, Config present, TuneOptions options,
                          std::function<void(const Config&)> found);
// Waits until no search is queued or running; for tests and for programs that end.
void finish_background();

} // namespace kiln::tune
