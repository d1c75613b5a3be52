// Defines the state of a call that the ranks of a Group execute together, and what the files of Group share.
#pragma once

#include <kiln/collectives/threads/group.h>

#include <mutex>

namespace kiln::collectives {

class Group::Call : public std::enable_shared_from_this<Group::Call> {
public:
  Call(std::shared_ptr<const Members> members, CallName name, const CollectiveCall& call, int first);

  // What a rank of the call has done so far.
  struct Rank {
    CallName name; // of its call, which may differ from that of others
    bool begun = false;
    bool failed = false; // nothing is copied to or from its memory any more
    bool left = false;
    CollectiveCall call; // what it passed
    std::mutex reducing; // one reduction in the background at a time
    // Transfers from and to it that have not arrived, and reductions in the background that have not ended.
    int unfinished = 0;
    Nanoseconds began = 0;
  };

  int size() const { return static_cast<int>(ranks.size()); }
  int in_group(int rank) const { return members->ranks[static_cast<std::size_t>(rank)]; }
  Rank& rank(int r) { return ranks[static_cast<std::size_t>(r)]; }
  const Rank& rank(int r) const { return ranks[static_cast<std::size_t>(r)]; }
  const Step& step(int i) const { return schedule.steps[static_cast<std::size_t>(i)]; }
  bool all_have_begun() const;
  // How what a rank passes differs from what the first rank passed, other than in its name; " " if in its
  // name; "" if it does not.
  std::string difference(const CallName& name, const CollectiveCall& call) const;

  const std::shared_ptr<const Members> members;
  const CallName name;
  const std::shared_ptr<const Schedule> shared_schedule;
  const Schedule& schedule;
  const std::string details;
  const bool in_background;
  const int first;                         // the rank that was the first to begin it
  std::vector<std::vector<int>> followers; // of each step
  std::vector<std::size_t> missing;        // steps that each step still waits for
  std::vector<bool> asked, ended;          // of each step
  std::vector<Nanoseconds> begins;         // of each step, once it has begun
  std::vector<Rank> ranks;
};

// The name of a piece in errors and traces: "shard 1.0".
std::string text_of(const Piece& piece);
// Copies between the memories of two ranks, and returns when that is done.
void copy_between(Device to_device, void* to, Device from_device, const void* from, std::int64_t bytes);

// At one time of the virtual clock, what ends comes before what requests a port, and both are in the order of
// steps. Forecasts (forecast.cpp) have the same order.
inline EventOrder when_it_ends(int step, int rank) { return {static_cast<std::uint64_t>(step), rank}; }

} // namespace kiln::collectives
