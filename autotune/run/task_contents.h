// Copies the contents of a launch's arguments, so that a search measures with them.
#pragma once

#include <kiln/autotune/run/task.h>
#include <kiln/jit/runtime/stream.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::tune {

struct TuneOptions;

enum class Copied : std::uint8_t {
  all,      // of every argument that the kernel reads
  integers, // only of those with integers, which may be indices
};

struct TaskContents {
  GivenContents of;                 // one per argument; null: they are made up
  std::vector<std::string> made_up; // "argument 2 (f32, 3.0 GiB)": arguments beyond the limit
};

// Queues copies on the stream, so that they see what earlier commands of the stream write, and returns. The
// copies may be used once the stream has come so far. At most `most_bytes` are copied in total, integers and
// small arguments first. The task's words must hold real addresses. Throws UserError for a raw pointer if the
// size of the memory behind it is unknown.
TaskContents copy_contents(const Task& task, Stream& stream, Copied which, std::int64_t most_bytes);

// Copies all contents into the task, as a search on behalf of a caller needs them, and waits for the stream.
// Reports arguments beyond options.contents_bytes through options.announce or, without it, the log.
void take_contents(Task& task, Stream& stream, const TuneOptions& options);

} // namespace kiln::tune
