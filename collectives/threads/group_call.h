// Defines the state of a call that the ranks of a Group execute together, and what the files of Group share.
#pragma once

#include <kiln/collectives/threads/group.h>

#include <mutex>

namespace kiln::collectives {

// The group keeps a call until all ranks have ended it, or until the group is destroyed. So events refer to
// it by a plain pointer, and fit into their std::functions without an allocation.
class Group::Call {
public:
  Call(Group& group, std::shared_ptr<const Members> members, CallName name, const CollectiveCall& call,
       int first);

  // What a rank of the call has done so far.
  struct Rank {
    CallName name; // of its call, which may differ from that of others
    bool begun = false;
    bool failed = false;        // nothing is copied to or from its memory any more
    CollectiveCall call;        // what it passed
    std::vector<int> postponed; // steps that wait for nothing but this rank
    std::mutex reducing;        // one reduction in the background at a time
    // Transfers from and to it that have not arrived, and reductions in the background that have not ended.
    int unfinished = 0;
    Nanoseconds began = 0;
  };

  struct StepState {
    int missing = 0; // steps for which it still waits
    bool asked = false, ended = false;
    Nanoseconds begin = 0; // once it has begun
  };

  int size() const { return static_cast<int>(ranks.size()); }
  int in_group(int rank) const { return members->ranks[static_cast<std::size_t>(rank)]; }
  Rank& rank(int r) { return ranks[static_cast<std::size_t>(r)]; }
  const Rank& rank(int r) const { return ranks[static_cast<std::size_t>(r)]; }
  const Step& step(int i) const { return schedule->steps[static_cast<std::size_t>(i)]; }
  StepState& state(int i) { return states[static_cast<std::size_t>(i)]; }
  const StepState& state(int i) const { return states[static_cast<std::size_t>(i)]; }
  bool all_have_begun() const { return begun == size(); }
  // Whether all that the rank sends and receives, and what is reduced in the background, is complete.
  bool is_complete(int r) const { return rank(r).begun && rank(r).unfinished == 0 && all_have_begun(); }
  // How what a rank passes differs from what the first rank passed, other than in its name; " " if in its
  // name; "" if it does not.
  std::string difference(const CallName& name, const CollectiveCall& call) const;

  Group& group;
  const std::shared_ptr<const Members> members;
  const CallName name;
  const std::shared_ptr<const PreparedSchedule> schedule;
  const std::string details;
  const bool in_background;
  const int first; // the rank that was the first to begin it
  std::vector<StepState> states;
  std::vector<Rank> ranks;
  int begun = 0, left = 0; // how many ranks have begun and ended it
};

// The name of a piece in errors and traces: "shard 1.0".
std::string text_of(const Piece& piece);
// Copies between the memories of two ranks, and returns when that is done.
void copy_between(Device to_device, void* to, Device from_device, const void* from, std::int64_t bytes);

// At one time of the virtual clock, what ends comes before what requests a port, and both are in the order of
// steps. Forecasts (forecast.cpp) have the same order. Puts into symmetric memory, of which a rank has one at
// a time, come last.
inline EventOrder when_it_ends(const Group::Call& call, int step) {
  return {static_cast<std::uint64_t>(step), call.step(step).rank, call.name.sequence, call.members->id};
}
inline EventOrder when_it_asks(const Group::Call& call, int step) {
  EventOrder order = when_it_ends(call, step);
  order.number += std::uint64_t{1} << 32;
  return order;
}
inline EventOrder when_a_put_ends(int from) { return {(std::uint64_t{1} << 32) - 1, from}; }
inline EventOrder when_a_put_asks(int from) { return {(std::uint64_t{1} << 33) - 1, from}; }

} // namespace kiln::collectives
