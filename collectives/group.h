// Defines Group, ranks in one process that execute schedules together.
//
//   Group group({.ranks = 2, .clock = ClockKind::virtual_time, .link = {.bytes_per_second = 50e9}});
//   group.run([&](int rank) {
//     group.execute(rank, {"column_parallel", "mlp.up"}, ring_gather(shards, 4), part, cost);
//   });
//
// Each rank has a thread. What a rank sends is copied to the receiver's memory when the link has transferred
// it, by the thread that runs the timeline's events. A chunk is sent once both ranks have begun the call, so
// that nothing is written to the memory of a rank that is not there.
#pragma once

#include <kiln/collectives/comm_error.h>
#include <kiln/collectives/schedule.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace kiln::collectives {

// What a rank contributes to a call.
struct RankPart {
  // Where this rank has the bytes of a chunk: its own, or those that it receives.
  std::function<void*(Chunk)> place;
  // Computes or reduces on the thread of the rank, and returns when the results are in memory.
  std::function<void(const Step&)> compute;
};

class Group {
public:
  struct Options {
    int ranks = 1;
    ClockKind clock = ClockKind::wall;
    LinkModel link = {};
    Nanoseconds deadline = 60'000'000'000; // of each wait for another rank
  };
  explicit Group(Options options);
  Group(const Group&) = delete;

  int size() const { return options_.ranks; }
  Timeline& timeline() { return timeline_; }

  // Calls body(rank) on a thread for each rank, and returns when all have ended. Throws the exception of the
  // rank that failed first.
  void run(const std::function<void(int rank)>& body);

  // Executes a rank's steps of a schedule, which all ranks pass alike. Returns when this rank has computed
  // all its steps, and when all that it sends and receives has arrived. Throws CommError if another rank
  // does not do its part; what was not received by then is not written. `cost` says how long steps last on
  // the virtual clock.
  void execute(int rank, CallName name, const Schedule& schedule, const RankPart& part, const StepCost& cost);

  // Makes all calls of all ranks end with an error, now and later.
  void abort(int guilty_rank, const std::string& why);

private:
  struct Call : std::enable_shared_from_this<Call> {
    CallName name;
    Schedule schedule;
    int first = 0;                           // the rank that was the first to begin it
    std::vector<std::vector<int>> followers; // of each step
    std::vector<std::size_t> missing;        // steps that each step still waits for
    std::vector<bool> asked, ended;          // of each step
    const RankPart* part(int rank) const { return parts[static_cast<std::size_t>(rank)]; }
    std::vector<const RankPart*> parts; // of each rank that has begun
    std::vector<int> unfinished;        // puts of each rank, sent or received, that have not arrived
    std::vector<bool> begun;            // of each rank
    std::vector<bool> failed; // of each rank; nothing is copied to or from the memory of one that failed
    int left = 0;             // ranks that have left
  };
  struct Failure {
    int guilty_rank;
    std::string why;
  };

  std::shared_ptr<Call> begin(int rank, const CallName& name, const Schedule& schedule, const RankPart& part);
  void ask_if_ready(Call& call, int step);
  void send(const std::shared_ptr<Call>& call, int step);
  void end(Call& call, int step);
  // A rank without which the call cannot go on: it has ended.
  std::optional<Failure> failure_of(const Call& call, int rank) const;
  void compute_all(Call& call, int rank, Nanoseconds began, const RankPart& part, const StepCost& cost);
  // After a failure: waits until nothing is copied to or from the rank's memory.
  void leave(Call& call, int rank);
  void wait(const Call& call, int rank, Nanoseconds began, const std::function<bool()>& ready);

  const Options options_;
  Timeline timeline_;
  // The lock of the timeline guards what follows.
  Ports ports_;
  std::vector<std::uint64_t> calls_of_; // the calls that each rank has begun
  std::vector<bool> gone_;              // ranks whose bodies have ended
  std::vector<int> copies_;             // to and from the memory of each rank, now
  std::map<std::uint64_t, std::shared_ptr<Call>> calls_;
  std::optional<Failure> aborted_;
};

} // namespace kiln::collectives
