// Defines schedules: what the ranks compute and send in one call, and in which order, as data.
//
//   const Shards shards = Shards::even(rows, 4).in_chunks(2);
//   const Schedule s = ring_gather(shards, {.shard = k * sizeof(bf16)});   // gathers the input of a product
//   validate(s);
//   const Forecast f = forecast(s, link, cost);      // forecast.h: when each step begins and ends
//
// The unit of transfer is a piece: a chunk of a shard, one rank's contribution to a chunk of a sum, or a
// chunk of the sum. There are four exchanges:
//
//   gather      each rank gets the shards of all others, and computes with each chunk
//   scatter     each rank computes its contribution to every chunk; the owner of a chunk adds all of them
//   all_reduce  the same, and in the end each rank has the sum of every chunk
//   all_to_all  each rank gets what all others have for it; nothing is computed
//
// A gather in which only one rank has rows is a broadcast, and a scatter in which only one rank has rows is a
// reduction to that rank. A schedule whose steps compute nothing is a plain collective.
//
// Steps are numbered in the order in which they are listed, and wait for earlier ones only, so that a
// schedule cannot wait for itself. Each rank computes its own steps one after the other in the order of the
// list. What it sends passes its ports (link.h) in the order in which it becomes ready, and what becomes
// ready at the same time in the order of the list.
//
// Contributions are always added in the order of ranks, so that sums do not depend on the schedule.
#pragma once

#include <kiln/collectives/schedule/shards.h>
#include <kiln/dsl/api.h>

#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

struct Piece {
  enum class Kind : std::uint8_t {
    shard,   // of a gather: the chunk of what its owner has at the beginning
    partial, // what rank `source` contributes to the chunk, or has for its owner (of an all_to_all)
    sum,     // of all partial ones
  };
  Kind kind = Kind::shard;
  Chunk chunk = {};
  int source = 0; // of a partial piece; otherwise 0
  bool operator==(const Piece&) const = default;
};

enum class Exchange : std::uint8_t { gather, scatter, all_reduce, all_to_all };
const char* name_of(Exchange exchange); // "gather"

struct Step {
  enum class Kind : std::uint8_t {
    compute, // computes with a shard's or a sum's chunk, or makes this rank's partial piece of the chunk
    put,     // sends the piece to rank `to`
    reduce,  // adds the partial pieces of the chunk, in the order of ranks
  };
  Kind kind = Kind::compute;
  int rank = 0;           // the rank that computes or sends
  int to = 0;             // of a put
  Piece piece = {};       // what is sent, computed with (shard, sum) or made (partial, sum by a reduction)
  std::int64_t bytes = 0; // of a put
  // Of a computation: that many chunks at once, from piece.chunk on, in the order of owners and indices. They
  // are consecutive rows.
  int chunks = 1;
  std::vector<int> after = {}; // the numbers of the steps that must have ended
};

// The bytes of a row of each kind of piece.
struct RowBytes {
  std::int64_t shard = 0, partial = 0, sum = 0;
};

struct Schedule {
  std::string name; // "serial", "ring", "direct", "one_shot"
  Exchange exchange = Exchange::gather;
  Shards shards{{0}};
  bool computes = true;   // false: partial pieces exist from the beginning, and shards feed no computation
  bool uses_sums = false; // each rank also computes with the sums that it receives
  std::vector<Step> steps = {};

  int ranks() const { return shards.ranks(); }
  // The rows of a step.
  Rows rows(const Step& step) const;
  // The chunk that follows another one by so many.
  Chunk following(Chunk chunk, int by) const;
};

// How a schedule is built, besides its shards.
struct ScheduleOptions {
  bool computes = true;
  bool uses_sums = false; // of an all-reduce
};

// Gathers. Serial: first everything is sent around the ring, then all is computed. Ring: each rank forwards
// to the next one what it received from the one before. Direct: each owner sends to all others. The last two
// compute the own shard first, as a whole.
Schedule serial_gather(const Shards& shards, RowBytes bytes, ScheduleOptions options = {});
Schedule ring_gather(const Shards& shards, RowBytes bytes, ScheduleOptions options = {});
Schedule direct_gather(const Shards& shards, RowBytes bytes, ScheduleOptions options = {});

// Scatters. Serial: first everything is computed, then sent. Direct: what is computed is sent at once, and
// the own shard is computed last, as a whole.
Schedule serial_scatter(const Shards& shards, RowBytes bytes, ScheduleOptions options = {});
Schedule direct_scatter(const Shards& shards, RowBytes bytes, ScheduleOptions options = {});

// All-reduces. Two-shot: a scatter, after which the owners send the sums to all others. One-shot: each rank
// sends its partial pieces to all others, and each rank makes every sum. Serial: everything is computed
// before the two shots.
Schedule serial_all_reduce(const Shards& shards, RowBytes bytes, ScheduleOptions options = {});
Schedule two_shot_all_reduce(const Shards& shards, RowBytes bytes, ScheduleOptions options = {});
Schedule one_shot_all_reduce(const Shards& shards, RowBytes bytes, ScheduleOptions options = {});

// Each rank sends to each other rank bytes_of[sender * ranks + receiver] bytes, as one piece.
Schedule direct_all_to_all(int ranks, const std::vector<std::int64_t>& bytes_of);

// Throws InternalError unless steps wait for earlier ones only, ranks exist, what is sent, computed with or
// added is there by then, each rank gets each piece at most once and computes and reduces each chunk once,
// and in the end all that the exchange promises has been done.
void validate(const Schedule& schedule);

} // namespace kiln::collectives
KILN_API_END
