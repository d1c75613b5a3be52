// Records the calls of ranks, and finds out which rank is at fault if one waits too long.
#include <kiln/collectives/threads/group_call.h>

#include <algorithm>
#include <utility>

namespace kiln::collectives {

constexpr std::size_t most_recorded = 16; // calls of a rank

std::string text_of(const Piece& p) {
  const std::string chunk = std::to_string(p.chunk.owner) + "." + std::to_string(p.chunk.index);
  switch (p.kind) {
  case Piece::Kind::shard: return "shard " + chunk;
  case Piece::Kind::partial: return "partial " + chunk + " of rank " + std::to_string(p.source);
  case Piece::Kind::sum: return "sum " + chunk;
  }
  return chunk;
}

void Group::record_begin(int rank, const CallName& name) {
  auto& list = recorded_[static_cast<std::size_t>(rank)];
  list.push_back({name, timeline_.now_locked()});
  if (list.size() > most_recorded) list.pop_front();
}

void Group::record_end(int rank, const CallName& name, bool failed) {
  auto& list = recorded_[static_cast<std::size_t>(rank)];
  const auto at = std::find_if(list.rbegin(), list.rend(), [&](const Recorded& r) {
    return r.name.sequence == name.sequence && r.name.collective == name.collective && r.ended < 0;
  });
  if (at != list.rend()) at->ended = timeline_.now_locked(), at->failed = failed;
}

std::string Group::last_calls_locked() const {
  std::string text;
  for (std::size_t rank = 0; rank < recorded_.size(); ++rank) {
    text += "rank " + std::to_string(rank) + (gone_[rank] ? " (ended)" : "") + ":";
    if (recorded_[rank].empty()) text += " no calls";
    for (const Recorded& r : recorded_[rank]) {
      text += " " + r.name.text() + " ";
      text += r.ended < 0 ? "since " + std::to_string(r.began / 1000) + " us"
                          : (r.failed ? "failed after " : "took ") +
                                std::to_string((r.ended - r.began) / 1000) + " us";
      text += ";";
    }
    text += "\n";
  }
  return text;
}

std::string Group::last_calls() {
  std::string text;
  timeline_.change([&] { text = last_calls_locked(); });
  return text;
}

std::optional<Group::Failure> Group::failure_of(const Call& call, int rank) const {
  if (aborted_) return aborted_;
  if (ended_ranks_ == 0 || call.all_have_begun()) return std::nullopt;
  for (int other = 0; other < call.size(); ++other)
    if (const int number = call.in_group(other);
        other != rank && gone_[static_cast<std::size_t>(number)] && !call.rank(other).begun)
      return Failure{number, "rank " + std::to_string(number) + " has ended without making this call"};
  return std::nullopt;
}

Group::Failure Group::blame(int number, Failure otherwise, Seen& seen) const {
  const Waiting& its = waiting_[static_cast<std::size_t>(number)];
  if (!its.call) return otherwise;
  if (const auto [at, is_new] = seen.emplace(number, std::nullopt); !is_new)
    return at->second.value_or(otherwise);
  return *(seen[number] = delay_of(*its.call, its.rank, seen));
}

Group::Failure Group::delay_of(const Call& call, int rank, Seen& seen) const {
  std::vector<int> absent;
  for (int other = 0; other < call.size(); ++other)
    if (!call.rank(other).begun) absent.push_back(call.in_group(other));
  if (!absent.empty()) {
    std::string who;
    for (int other : absent)
      who += (who.empty() ? "rank " : ", ") + std::to_string(other);
    who += (absent.size() == 1 ? " has" : " have") + std::string(" not begun ") + call.name.text();
    // Several ranks may be late because of one.
    std::optional<Failure> reason;
    for (int other : absent) {
      const Failure f = blame(other, {other, who}, seen);
      if (reason && reason->failed_rank != f.failed_rank) return {-1, who};
      if (!reason || f.why != who) reason = f;
    }
    return *reason;
  }
  // The first step that could run, of those for which the rank waits, directly or not.
  const std::size_t count = call.states.size();
  std::vector<bool> needed(count), computes(call.ranks.size()); // by step; by rank: what it computes before
  for (std::size_t i = count; i-- > 0;) {
    const Step& s = call.step(static_cast<int>(i));
    if (call.states[i].ended) continue;
    const bool put = s.kind == Step::Kind::put;
    if (s.rank == rank || (put && s.to == rank) || (!put && computes[static_cast<std::size_t>(s.rank)]))
      needed[i] = true;
    if (!needed[i]) continue;
    for (int before : s.after)
      needed[static_cast<std::size_t>(before)] = true;
    if (!put) computes[static_cast<std::size_t>(s.rank)] = true;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!needed[i] || call.states[i].ended || call.states[i].missing > 0) continue;
    const Step& s = call.step(static_cast<int>(i));
    const std::string who = "rank " + std::to_string(call.in_group(s.rank));
    if (s.kind == Step::Kind::put)
      return {-1, "what " + who + " sends to rank " + std::to_string(call.in_group(s.to)) + " (" +
                      text_of(s.piece) + ") has not arrived"};
    const int number = call.in_group(s.rank);
    return blame(
        number,
        {number, who + " has not ended its computation of " + text_of(s.piece) + " in " + call.name.text()},
        seen);
  }
  return {-1, "the call has made no progress"};
}

} // namespace kiln::collectives
