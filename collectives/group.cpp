// Implements the execution of schedules: a step begins when the steps before it have ended and its ranks are
// there.
#include <kiln/collectives/group.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

namespace kiln::collectives {

Group::Group(Options options)
    : options_(std::move(options)), timeline_(options_.clock), ports_(options_.link, options_.ranks),
      calls_of_(static_cast<std::size_t>(options_.ranks)), gone_(static_cast<std::size_t>(options_.ranks)),
      copies_(static_cast<std::size_t>(options_.ranks)) {}

void Group::run(const std::function<void(int rank)>& body) {
  const auto ranks = static_cast<std::size_t>(options_.ranks);
  struct Failed {
    Nanoseconds when;
    std::exception_ptr what;
  };
  std::vector<std::optional<Failed>> failed(ranks);
  std::vector<std::unique_ptr<Timeline::Participant>> here;
  for (std::size_t i = 0; i < ranks; ++i) // all take part before the first one can wait
    here.push_back(std::make_unique<Timeline::Participant>(timeline_));
  timeline_.change([&] { std::fill(gone_.begin(), gone_.end(), false); });
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks; ++i)
    threads.emplace_back([&, i] {
      try {
        body(static_cast<int>(i));
      } catch (...) {
        failed[i] = Failed{timeline_.now(), std::current_exception()};
      }
      timeline_.change([&] { gone_[i] = true; });
      here[i].reset();
    });
  for (std::thread& thread : threads)
    thread.join();
  const Failed* first = nullptr;
  for (const auto& f : failed)
    if (f && (!first || f->when < first->when)) first = &*f;
  if (first) std::rethrow_exception(first->what);
}

void Group::abort(int guilty_rank, const std::string& why) {
  timeline_.change([&] {
    if (!aborted_) aborted_ = Failure{guilty_rank, why};
  });
}

// How a rank's call differs from that of the first rank, other than in its name; " " if in its name.
static std::string differences_of(const CallName& a, const Schedule& s, const CallName& b,
                                  const Schedule& t) {
  if (a.collective != b.collective || a.tag != b.tag) return " ";
  const auto bytes = [](const Schedule& of) {
    std::int64_t sum = 0;
    for (const Step& step : of.steps)
      sum += step.bytes;
    return sum;
  };
  if (bytes(s) != bytes(t))
    return " with " + std::to_string(bytes(t)) + " bytes instead of " + std::to_string(bytes(s));
  if (s.name != t.name || s.chunks != t.chunks || s.steps.size() != t.steps.size())
    return " by the schedule " + t.name + " in " + std::to_string(t.chunks) + " chunks instead of " + s.name +
           " in " + std::to_string(s.chunks);
  return {};
}

std::shared_ptr<Group::Call> Group::begin(int rank, const CallName& name, const Schedule& schedule,
                                          const RankPart& part) {
  std::shared_ptr<Call>& call = calls_[name.sequence];
  if (!call) {
    call = std::make_shared<Call>();
    call->name = name;
    call->schedule = schedule;
    call->first = rank;
    const std::size_t count = schedule.steps.size();
    call->followers.resize(count), call->missing.resize(count);
    call->asked.resize(count), call->ended.resize(count);
    call->parts.resize(static_cast<std::size_t>(options_.ranks));
    call->begun.resize(static_cast<std::size_t>(options_.ranks));
    call->failed.resize(static_cast<std::size_t>(options_.ranks));
    call->unfinished.resize(static_cast<std::size_t>(options_.ranks));
    for (std::size_t i = 0; i < count; ++i) {
      const Step& s = schedule.steps[i];
      call->missing[i] = s.after.size();
      for (int before : s.after)
        call->followers[static_cast<std::size_t>(before)].push_back(static_cast<int>(i));
      if (s.kind != Step::Kind::put) continue;
      ++call->unfinished[static_cast<std::size_t>(s.rank)];
      ++call->unfinished[static_cast<std::size_t>(s.to)];
    }
  }
  if (const std::string other = differences_of(call->name, call->schedule, name, schedule); !other.empty()) {
    if (!aborted_)
      aborted_ = Failure{rank, "rank " + std::to_string(rank) + " calls " + name.text() +
                                   (other == " " ? "" : other) + ", and rank " + std::to_string(call->first) +
                                   " calls " + call->name.text()};
    return call;
  }
  call->parts[static_cast<std::size_t>(rank)] = &part;
  call->begun[static_cast<std::size_t>(rank)] = true;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i)
    ask_if_ready(*call, static_cast<int>(i));
  return call;
}

// Puts that become ready at the same time are sent in the order of steps, whichever thread is first.
void Group::ask_if_ready(Call& call, int step) {
  const auto i = static_cast<std::size_t>(step);
  const Step& s = call.schedule.steps[i];
  if (s.kind != Step::Kind::put || call.asked[i] || call.missing[i] > 0) return;
  if (!call.part(s.rank) || !call.part(s.to)) return;
  call.asked[i] = true;
  timeline_.at_locked(timeline_.now_locked(), {static_cast<std::uint64_t>(step), s.rank},
                      {.done = [this, to = call.shared_from_this(), step] { send(to, step); }});
}

void Group::send(const std::shared_ptr<Call>& call, int step) {
  if (aborted_) return;
  const Step& s = call->schedule.steps[static_cast<std::size_t>(step)];
  const Passage p = ports_.pass(s.rank, s.to, s.bytes, timeline_.now_locked());
  const auto count_copies = [this, call, &s](int change) {
    copies_[static_cast<std::size_t>(s.rank)] += change;
    copies_[static_cast<std::size_t>(s.to)] += change;
  };
  timeline_.at_locked(p.arrival, {static_cast<std::uint64_t>(step), s.rank},
                      {.begins =
                           [this, call, &s, count_copies] {
                             const bool there = !aborted_ &&
                                                !call->failed[static_cast<std::size_t>(s.rank)] &&
                                                !call->failed[static_cast<std::size_t>(s.to)];
                             if (there) count_copies(1);
                             return there;
                           },
                       .work =
                           [call, &s] { // a rank does not leave while its memory is copied
                             std::memcpy(call->part(s.to)->place(s.chunk), call->part(s.rank)->place(s.chunk),
                                         static_cast<std::size_t>(s.bytes));
                           },
                       .done =
                           [this, call, step, count_copies] {
                             count_copies(-1);
                             end(*call, step);
                           }});
}

void Group::end(Call& call, int step) {
  const auto i = static_cast<std::size_t>(step);
  const Step& s = call.schedule.steps[i];
  call.ended[i] = true;
  if (s.kind == Step::Kind::put) {
    --call.unfinished[static_cast<std::size_t>(s.rank)];
    --call.unfinished[static_cast<std::size_t>(s.to)];
  }
  for (int follower : call.followers[i]) {
    --call.missing[static_cast<std::size_t>(follower)];
    ask_if_ready(call, follower);
  }
}

std::optional<Group::Failure> Group::failure_of(const Call& call, int rank) const {
  if (aborted_) return aborted_;
  for (int other = 0; other < options_.ranks; ++other)
    if (other != rank && gone_[static_cast<std::size_t>(other)] &&
        !call.parts[static_cast<std::size_t>(other)])
      return Failure{other, "rank " + std::to_string(other) + " has ended without this call"};
  return std::nullopt;
}

void Group::wait(const Call& call, int rank, Nanoseconds began, const std::function<bool()>& ready) {
  std::optional<Failure> failure;
  const WaitEnd end = timeline_.wait(
      [&] {
        if (ready()) return true;
        failure = failure_of(call, rank);
        return failure.has_value();
      },
      timeline_.now() + options_.deadline);
  if (end == WaitEnd::ready && !failure) return;
  std::vector<int> absent;
  if (!failure) {
    timeline_.change([&] {
      for (int other = 0; other < options_.ranks; ++other)
        if (!call.begun[static_cast<std::size_t>(other)]) absent.push_back(other);
    });
    std::string who;
    for (int other : absent)
      who += (who.empty() ? "rank " : ", ") + std::to_string(other);
    failure = Failure{absent.size() == 1 ? absent.front() : -1,
                      who.empty() ? "nothing has happened" : who + " has not begun this call"};
    abort(failure->guilty_rank, failure->why);
  }
  throw CommError(call.name, failure->guilty_rank, timeline_.now() - began,
                  "rank " + std::to_string(rank) + " waits: " + failure->why);
}

void Group::leave(Call& call, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  timeline_.change([&] { call.failed[r] = true; });
  timeline_.wait([&] { return copies_[r] == 0; });
}

void Group::execute(int rank, CallName name, const Schedule& schedule, const RankPart& part,
                    const StepCost& cost) {
  const auto r = static_cast<std::size_t>(rank);
  const Nanoseconds began = timeline_.now();
  std::shared_ptr<Call> call;
  timeline_.change([&] {
    name.sequence = calls_of_[r]++;
    call = begin(rank, name, schedule, part);
  });
  try {
    compute_all(*call, rank, began, part, cost);
    wait(*call, rank, began, [&] {
      return call->unfinished[r] == 0 &&
             std::all_of(call->begun.begin(), call->begun.end(), [](bool b) { return b; });
    });
  } catch (const CommError&) {
    leave(*call, rank);
    throw;
  } catch (const std::exception& e) {
    abort(rank, "rank " + std::to_string(rank) + " failed: " + e.what());
    leave(*call, rank);
    throw;
  }
  timeline_.change([&] {
    if (++call->left == options_.ranks) calls_.erase(name.sequence);
  });
}

void Group::compute_all(Call& call, int rank, Nanoseconds began, const RankPart& part, const StepCost& cost) {
  for (std::size_t i = 0; i < call.schedule.steps.size(); ++i) {
    const Step& s = call.schedule.steps[i];
    if (s.rank != rank || s.kind == Step::Kind::put) continue;
    wait(call, rank, began, [&] { return call.missing[i] == 0; });
    part.compute(s);
    timeline_.spend(cost(s));
    timeline_.change([&] { end(call, static_cast<int>(i)); });
  }
}

} // namespace kiln::collectives
