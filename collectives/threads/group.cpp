// Implements the calls of ranks: beginning, waiting for and ending them.
#include <kiln/collectives/threads/group_call.h>

#include <kiln/dsl/error.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

namespace kiln::collectives {
namespace {

constexpr Nanoseconds poll_time = 1000; // that Work::test takes on the virtual clock, at least

} // namespace

Group::Group(Options options)
    : options_(std::move(options)), polls_(static_cast<std::size_t>(options_.ranks)),
      ports_(options_.link, options_.ranks), waiting_(static_cast<std::size_t>(options_.ranks)),
      gone_(static_cast<std::size_t>(options_.ranks)), copies_(static_cast<std::size_t>(options_.ranks)),
      reduces_until_(static_cast<std::size_t>(options_.ranks)),
      recorded_(static_cast<std::size_t>(options_.ranks)),
      timeline_(options_.clock, {.later_events = !options_.link.is_free(),
                                 .active_wait = options_.active_wait,
                                 .most_helpers = options_.cpus}) {
  auto everyone = std::make_shared<Members>();
  for (int r = 0; r < options_.ranks; ++r)
    everyone->ranks.push_back(r);
  everyone_ = std::move(everyone);
}
Group::~Group() = default;

Device Group::device(int rank) const {
  return options_.devices.empty() ? Device::cpu() : options_.devices[static_cast<std::size_t>(rank)];
}

void Group::run(const std::function<void(int rank)>& body) {
  const auto ranks = static_cast<std::size_t>(options_.ranks);
  struct Failed {
    bool consequence;
    Nanoseconds when;
    std::exception_ptr what;
  };
  std::vector<std::optional<Failed>> failed(ranks);
  std::vector<std::unique_ptr<Timeline::Participant>> here;
  for (std::size_t i = 0; i < ranks; ++i) // all take part before the first one can wait
    here.push_back(std::make_unique<Timeline::Participant>(timeline_));
  timeline_.change([&] {
    std::fill(gone_.begin(), gone_.end(), false);
    ended_ranks_ = 0;
  });
  std::vector<std::thread> threads;
  const auto leave = [&](std::size_t i) {
    timeline_.change([&] {
      gone_[i] = true;
      ++ended_ranks_;
    });
    here[i].reset();
  };
  const auto fail = [&](std::size_t i, bool consequence) {
    const Nanoseconds now = timeline_.now(); // of the virtual clock it may be equal for several ranks
    failed[i] = Failed{consequence, now, std::current_exception()};
  };
  const auto run_rank = [&](std::size_t i) {
    try {
      body(static_cast<int>(i));
    } catch (const CommError&) {
      fail(i, true);
    } catch (...) {
      fail(i, false);
    }
    leave(i);
  };
  for (std::size_t i = 0; i < ranks; ++i) {
    try {
      threads.emplace_back(run_rank, i);
    } catch (...) { // the system refuses a thread; the ranks that exist get a CommError
      fail(i, false);
      for (std::size_t rest = i; rest < ranks; ++rest)
        leave(rest);
      break;
    }
  }
  for (std::thread& thread : threads)
    thread.join();
  // CommErrors are consequences of what another rank has thrown.
  const Failed* first = nullptr;
  for (const auto& f : failed)
    if (f && (!first || std::pair(f->consequence, f->when) < std::pair(first->consequence, first->when)))
      first = &*f;
  if (first) std::rethrow_exception(first->what);
}

void Group::abort_locked(int failed_rank, const std::string& why) {
  if (!aborted_) aborted_ = Failure{failed_rank, why};
}

void Group::abort(int failed_rank, const std::string& why) {
  timeline_.change([&] { abort_locked(failed_rank, why); });
}

void Group::fail(int rank, const std::string& what) {
  abort(rank, "rank " + std::to_string(rank) + " failed: " + what);
}

std::shared_ptr<Group::Call> Group::begin(const std::shared_ptr<const Members>& members, int rank,
                                          CollectiveCall part) {
  if (part.deadline < 0)
    throw UserError(part.collective + ": the deadline is negative; pass nanoseconds, or 0 for the default");
  const int ranks = part.schedule ? part.schedule->ranks() : 0;
  if (ranks != static_cast<int>(members->ranks.size()))
    throw UserError(part.collective + ": the schedule is for " + std::to_string(ranks) +
                    " ranks, and the communicator has " + std::to_string(members->ranks.size()) +
                    "; build it with shards of so many ranks");
  if (!part.part.place) throw UserError(part.collective + ": part.place is not given");
  std::shared_ptr<Call> result;
  timeline_.change([&] {
    CallName name{part.collective, part.tag, calls_of_[{members->id, rank}]++};
    record_begin(members->ranks[static_cast<std::size_t>(rank)], name);
    std::shared_ptr<Call>& call = calls_[{members->id, name.sequence}];
    if (!call) call = std::make_shared<Call>(*this, members, name, part, rank);
    result = call;
    call->rank(rank).name = name;
    call->rank(rank).began = timeline_.now_locked();
    if (const std::string other = call->difference(name, part); !other.empty()) {
      const auto number = [&](int r) { return "rank " + std::to_string(call->in_group(r)); };
      abort_locked(call->in_group(rank), number(rank) + " calls " + name.text() +
                                             (other == " " ? "" : other) + ", and " + number(call->first) +
                                             " calls " + call->name.text());
      return;
    }
    join(*call, rank, std::move(part));
  });
  return result;
}

void Group::wait(Call& call, int rank, Nanoseconds deadline, const std::function<bool()>& ready) {
  const int number = call.in_group(rank);
  std::optional<Failure> failure;
  const WaitEnd end = timeline_.wait(
      [&] {
        const bool is_ready = ready();
        if (!is_ready) failure = failure_of(call, rank);
        const bool over = is_ready || failure;
        waiting_[static_cast<std::size_t>(number)] = over ? Waiting{} : Waiting{&call, rank};
        return over;
      },
      later(timeline_.now(), deadline));
  if (end == WaitEnd::ready && !failure) return;
  std::string record;
  timeline_.change([&] {
    if (!failure) {
      Seen seen{{number, std::nullopt}};
      failure = aborted_ ? *aborted_ : delay_of(call, rank, seen);
      record = last_calls_locked();
    }
    waiting_[static_cast<std::size_t>(number)] = {};
    abort_locked(failure->failed_rank, failure->why);
  });
  throw CommError(call.rank(rank).name, failure->failed_rank, timeline_.now() - call.rank(rank).began,
                  "rank " + std::to_string(number) + " waits: " + failure->why, record);
}

void Group::leave(Call& call, int rank) {
  const auto number = static_cast<std::size_t>(call.in_group(rank));
  timeline_.change([&] {
    call.rank(rank).failed = true;
    waits_for_copies_ = true;
    record_end(call.in_group(rank), call.rank(rank).name, true);
  });
  timeline_.wait([&] { return copies_[number] == 0; });
  CollectiveCall part; // is destroyed without the lock
  timeline_.change([&] { part = std::exchange(call.rank(rank).call, {}); });
}

bool Group::is_done(Call& call, int rank) {
  // On the virtual clock, time passes only while all ranks wait. Polls in a row take more and more of it, so
  // that what never comes is soon late.
  if (options_.clock == ClockKind::virtual_time) {
    Polls& polls = polls_[static_cast<std::size_t>(call.in_group(rank))];
    const Nanoseconds now = timeline_.now();
    if (now != polls.until) polls.began = now;
    timeline_.spend(std::max(poll_time, (now - polls.began) / 100));
    polls.until = timeline_.now();
  }
  timeline_.run_due();
  bool done = false;
  timeline_.change([&] { done = failure_of(call, rank) || (call.in_background && call.is_complete(rank)); });
  // Ranks that share a CPU would ask until the end of their time slices.
  if (!done && options_.clock == ClockKind::wall && options_.active_wait == 0) std::this_thread::yield();
  return done;
}

void Group::abandon(Call& call, int rank) noexcept {
  const int number = call.in_group(rank);
  abort(number, "rank " + std::to_string(number) + " has thrown an exception during this call");
  leave(call, rank);
}

void Group::finish(Call& call, int rank, Nanoseconds deadline) {
  if (deadline == 0) deadline = call.rank(rank).call.deadline;
  if (deadline == 0) deadline = options_.deadline;
  const int number = call.in_group(rank);
  CollectiveCall part; // is destroyed without the lock, as is the call
  std::shared_ptr<Call> last;
  // Nothing uses what the rank passed any more, and the rank may destroy what that refers to.
  const auto leave_complete = [&] {
    part = std::exchange(call.rank(rank).call, {});
    record_end(number, call.name, false);
    if (++call.left < call.size()) return;
    const auto at = calls_.find({call.members->id, call.name.sequence});
    last = std::move(at->second);
    calls_.erase(at);
  };
  try {
    if (!call.in_background) compute_all(call, rank, deadline);
    wait(call, rank, deadline, [&] { return call.is_complete(rank) && (leave_complete(), true); });
  } catch (const CommError&) {
    leave(call, rank);
    throw;
  } catch (const std::exception& e) {
    fail(number, e.what());
    leave(call, rank);
    throw;
  } catch (...) {
    fail(number, "it threw what is no std::exception");
    leave(call, rank);
    throw;
  }
}

void Group::compute_all(Call& call, int rank, Nanoseconds deadline) {
  wait(call, rank, deadline, [&] { return call.rank(rank).begun; }); // unless the call differs from others'
  const CollectiveCall& own = call.rank(rank).call;
  for (int step : call.schedule->graph.of(rank).computes) {
    const Step& s = call.step(step);
    Call::StepState& state = call.state(step);
    wait(call, rank, deadline, [&] { return state.missing == 0; });
    state.begin = timeline_.now();
    own.part.run(s);
    if (options_.clock == ClockKind::virtual_time && own.cost) {
      bool over = false;
      timeline_.at(later(timeline_.now(), own.cost(s)), when_it_ends(call, step),
                   {.done = [&] { return over = true; }});
      timeline_.wait([&] { return over; });
    }
    timeline_.change([&] { return end(call, step); });
  }
}

} // namespace kiln::collectives
