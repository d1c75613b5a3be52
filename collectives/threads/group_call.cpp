// Prepares the state of a call, and compares what ranks pass.
#include <kiln/collectives/threads/group_call.h>

#include <algorithm>
#include <utility>

namespace kiln::collectives {

Group::Call::Call(std::shared_ptr<const Members> of, CallName called, const CollectiveCall& call, int rank)
    : members(std::move(of)), name(std::move(called)), shared_schedule(call.schedule),
      schedule(*shared_schedule), details(call.details), in_background(call.in_background), first(rank),
      followers(schedule.steps.size()), missing(schedule.steps.size()), asked(schedule.steps.size()),
      ended(schedule.steps.size()), begins(schedule.steps.size()), ranks(members->ranks.size()) {
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& s = schedule.steps[i];
    missing[i] = s.after.size();
    for (int before : s.after)
      followers[static_cast<std::size_t>(before)].push_back(static_cast<int>(i));
    if (s.kind == Step::Kind::put)
      ++this->rank(s.rank).unfinished, ++this->rank(s.to).unfinished;
    else if (in_background)
      ++this->rank(s.rank).unfinished;
  }
}

bool Group::Call::all_have_begun() const {
  return std::all_of(ranks.begin(), ranks.end(), [](const Rank& r) { return r.begun; });
}

std::string Group::Call::difference(const CallName& other, const CollectiveCall& call) const {
  if (name.collective != other.collective || name.tag != other.tag) return " ";
  if (details != call.details) return " of " + call.details + " instead of " + details;
  const auto bytes = [](const Schedule& of) {
    std::int64_t sum = 0;
    for (const Step& s : of.steps)
      sum += s.bytes;
    return sum;
  };
  const Schedule &a = schedule, &b = *call.schedule;
  if (b.exchange == Exchange::all_to_all && bytes(a) != bytes(b))
    return " sending " + std::to_string(bytes(b)) + " bytes instead of " + std::to_string(bytes(a));
  if (a.shards.rows() != b.shards.rows() || bytes(a) != bytes(b))
    return " of " + std::to_string(b.shards.rows()) + " rows, sending " + std::to_string(bytes(b)) +
           " bytes, instead of " + std::to_string(a.shards.rows()) + " rows and " + std::to_string(bytes(a)) +
           " bytes";
  if (!(a.shards == b.shards) || a.name != b.name || a.steps.size() != b.steps.size())
    return " by the schedule " + b.name + " in " + std::to_string(b.shards.chunks()) + " chunks instead of " +
           a.name + " in " + std::to_string(a.shards.chunks()) + ", or with other shards";
  return {};
}

} // namespace kiln::collectives
