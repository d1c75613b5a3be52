// Searches of the mode `online`: one at a time, in a thread of their own, with little of the machine.
#pragma once

#include <kiln/autotune/run/task.h>
#include <kiln/autotune/run/tuner.h>

#include <functional>

namespace kiln::tune {

// Queues a search of the task, which must not read its arguments' memory (live is ignored). `found` is called
// from that thread with a config that is `present`, the one that the program uses, or was confirmed to be
// faster than that. A task that is queued or was searched by this process is not searched again. Ends with
// the process, whose exit interrupts what it measures, and waits for that alone. A forked child has searches
// of its own.
void search_in_background(Task task, Config present, TuneOptions options,
                          std::function<void(const Config&)> found);
// Until nothing is queued or running; for tests and for programs that end.
void finish_background();

} // namespace kiln::tune
