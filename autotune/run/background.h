// Runs the searches of mode `online`, one at a time, in a background thread that uses few resources.
#pragma once

#include <kiln/autotune/run/task.h>
#include <kiln/autotune/run/tuner.h>

#include <functional>

namespace kiln::tune {

// Queues a search for the task. `present` is the config that the program uses. `found` is called on the
// background thread with the winner, if that is `present` or was confirmed to be faster than it. If `stream`
// is given, the task's words hold real addresses, and integers of the arguments, which may be indices, are
// copied in the order of the stream, up to 16 MiB; other contents are made up.
//
// So that a program with ever new problems stays bounded, there is one search per bucket of sizes
// (Bucketing::hybrid), and a problem is left out if `most_queued` searches wait or `most_searched` buckets
// were searched. Returns false then; true if the search is queued now or was before. At process exit the
// running measurement is interrupted, exit waits only for that, and a message says what was left out. A
// forked child has its own searches.
bool search_in_background(Task task, Config present, TuneOptions options,
                          std::function<void(const Config&)> found, Stream* stream = nullptr);
inline constexpr std::size_t most_queued = 32, most_searched = 4096;
inline constexpr std::int64_t most_copied_online = std::int64_t{16} << 20;

// Returns whether a problem that was left out before would be accepted now. Takes no lock.
bool background_has_room();

// What the background search of this process holds and has done.
struct BackgroundCounts {
  std::size_t queued = 0;     // searches that wait
  std::size_t searched = 0;   // buckets that were queued so far
  std::uint64_t left_out = 0; // requests for other problems that were rejected
};
BackgroundCounts background_counts();

// Waits until no search is queued or running; for tests and for programs that end.
void finish_background();

} // namespace kiln::tune
