// Defines schedules: what the ranks of a layer compute and send, and in which order, as data.
//
//   const Schedule s = ring_gather(shards, 4);       // an all-gather that feeds a product, in chunks
//   validate(s);
//   const Forecast f = forecast(s, link, cost);      // when each step begins and ends, and when all have ended
//
// Steps are numbered in the order in which they are listed, and only wait for earlier ones, so that a schedule
// cannot wait for itself. Each rank computes its own steps one after the other in the order of the list. What
// it sends passes its ports (link.h) in the order in which it becomes ready, and what becomes ready at one
// time in the order of the list.
#pragma once

#include <kiln/collectives/link.h>

#include <functional>
#include <string>
#include <vector>

namespace kiln::collectives {

// A chunk of the data that rank `owner` holds at the beginning (of a gather) or at the end (of a scatter).
struct Chunk {
  int owner = 0, index = 0;
  bool operator==(const Chunk&) const = default;
};

struct Step {
  enum class Kind : std::uint8_t {
    compute, // the part of the layer that belongs to the chunk
    put,     // sends the chunk to rank `to`
    reduce,  // adds what was received for the chunk, in the order of ranks
  };
  Kind kind = Kind::compute;
  int rank = 0; // who computes or sends
  int to = 0;   // of a put
  Chunk chunk = {};
  std::int64_t bytes = 0;      // of a put
  std::vector<int> after = {}; // the numbers of the steps that must have ended
};

struct Schedule {
  std::string name; // "serial", "ring", "direct"
  int ranks = 1;
  int chunks = 1; // of each shard
  std::vector<Step> steps = {};
};

// The sizes of a layer's shards: rows of `row_bytes`, rows_of[rank] of them.
struct Shards {
  std::vector<std::int64_t> rows_of;
  std::int64_t row_bytes = 0;
  // The rows of a chunk: parts of a shard that differ by at most one row.
  std::int64_t rows(Chunk chunk, int chunks) const;
};

// All-gathers whose chunks feed a computation. Serial: first everything is sent, then all is computed. Ring:
// each rank passes on to the next one what it got from the one before. Direct: each owner sends to all
// others.
Schedule serial_gather(const Shards& shards);
Schedule ring_gather(const Shards& shards, int chunks);
Schedule direct_gather(const Shards& shards, int chunks);

// Throws InternalError unless steps wait for earlier ones only, ranks exist, what is sent or computed is
// there by then, and each rank gets each chunk once and computes each once.
void validate(const Schedule& schedule);

// How long a computation or a reduction takes.
using StepCost = std::function<Nanoseconds(const Step&)>;

struct Forecast {
  struct Time {
    Nanoseconds begin = 0, end = 0;
  };
  std::vector<Time> steps;
  Nanoseconds makespan = 0;
  Nanoseconds computation = 0,
              communication = 0; // the largest sums of one rank: its steps; its receiving port
};
// What happens if all ranks begin at the time 0, without jitter.
Forecast forecast(const Schedule& schedule, const LinkModel& link, const StepCost& cost);

} // namespace kiln::collectives
