// Prepares the state of a call, and compares what ranks pass.
#include <kiln/collectives/threads/group_call.h>

#include <utility>

namespace kiln::collectives {

Group::Call::Call(Group& of, std::shared_ptr<const Members> among, CallName called,
                  const CollectiveCall& call, int rank)
    : group(of), members(std::move(among)), name(std::move(called)), schedule(call.schedule),
      details(call.details), in_background(call.in_background), first(rank), states(schedule->steps.size()),
      ranks(members->ranks.size()) {
  for (std::size_t i = 0; i < states.size(); ++i)
    states[i].missing = static_cast<int>(schedule->steps[i].after.size());
  for (int r = 0; r < size(); ++r) {
    const StepGraph::OfRank& steps = schedule->graph.of(r);
    this->rank(r).unfinished = steps.puts + (in_background ? static_cast<int>(steps.computes.size()) : 0);
  }
}

std::string Group::Call::difference(const CallName& other, const CollectiveCall& call) const {
  if (name.collective != other.collective || name.tag != other.tag) return " ";
  if (details != call.details) return " of " + call.details + " instead of " + details;
  if (schedule == call.schedule) return {};
  const PreparedSchedule &a = *schedule, &b = *call.schedule;
  const std::int64_t a_bytes = a.graph.bytes(), b_bytes = b.graph.bytes();
  if (b.exchange == Exchange::all_to_all && a_bytes != b_bytes)
    return " sending " + std::to_string(b_bytes) + " bytes instead of " + std::to_string(a_bytes);
  if (a.shards.rows() != b.shards.rows() || a_bytes != b_bytes)
    return " of " + std::to_string(b.shards.rows()) + " rows, sending " + std::to_string(b_bytes) +
           " bytes, instead of " + std::to_string(a.shards.rows()) + " rows and " + std::to_string(a_bytes) +
           " bytes";
  if (!(a.shards == b.shards) || a.name != b.name || a.steps.size() != b.steps.size())
    return " by the schedule " + b.name + " in " + std::to_string(b.shards.chunks()) + " chunks instead of " +
           a.name + " in " + std::to_string(a.shards.chunks()) + ", or with other shards";
  return {};
}

} // namespace kiln::collectives
