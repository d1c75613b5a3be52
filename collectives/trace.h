// Defines Trace, which records the computations and transfers of ranks, for the viewer at ui.perfetto.dev.
//
//   Trace trace;
//   run_ranks({.ranks = 2, .trace = &trace}, body);
//   trace.write("layer.json");        // one process for each rank, with a track for computations and one for
//                                     // incoming transfers
//   trace.write("layer.svg");         // a picture of the same, for documents
//
// Times are those of Communicator::now(). Puts into symmetric memory are not recorded. Thread-safe.
#pragma once

#include <kiln/collectives/schedule/nanoseconds.h>
#include <kiln/dsl/api.h>

#include <mutex>
#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

class Trace {
public:
  enum class Track : std::uint8_t { computation, transfers }; // each rank has both
  struct Span {
    int rank = 0;
    Track track = Track::computation;
    std::string name; // "all_gather #3 [mlp.up] shard 1.0"
    Nanoseconds begin = 0, end = 0;
    std::int64_t bytes = 0; // of a transfer, which is on the track of its receiver
  };

  void add(Span span);
  void clear();                    // forgets all spans, such as those of measuring plans
  std::vector<Span> spans() const; // in the order in which they ended
  // The time during which the rank computed while a transfer to it was in flight.
  Nanoseconds overlap(int rank) const;
  // The trace in the JSON format of Chrome and Perfetto; times in microseconds.
  std::string json() const;
  // A picture, with a color for each call.
  std::string svg() const;
  // Writes svg() to a file whose name ends in ".svg", and json() to any other. UserError if the file cannot
  // be written.
  void write(const std::string& path) const;

private:
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

} // namespace kiln::collectives
KILN_API_END
