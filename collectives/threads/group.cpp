// Implements the execution of calls: a step begins when the steps before it have ended and its ranks are
// there.
#include <kiln/collectives/threads/group_call.h>

#include <kiln/dsl/error.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

namespace kiln::collectives {
namespace {

// What requests a port comes after what ends at that time (when_it_ends).
EventOrder when_it_asks(int step, int rank) {
  return {(std::uint64_t{1} << 32) + static_cast<std::uint64_t>(step), rank};
}

constexpr std::int64_t long_copy = 256 << 10; // bytes: takes longer than to wake a thread
constexpr Nanoseconds poll_time = 1000;       // that Work::test takes on the virtual clock, at least

} // namespace

Group::Group(Options options)
    : options_(std::move(options)), polls_(static_cast<std::size_t>(options_.ranks)),
      ports_(options_.link, options_.ranks), waiting_(static_cast<std::size_t>(options_.ranks)),
      gone_(static_cast<std::size_t>(options_.ranks)), copies_(static_cast<std::size_t>(options_.ranks)),
      reduces_until_(static_cast<std::size_t>(options_.ranks)),
      recorded_(static_cast<std::size_t>(options_.ranks)),
      timeline_(options_.clock,
                {.later_events = !options_.link.is_free(), .active_wait = options_.active_wait}) {
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
  timeline_.change([&] { std::fill(gone_.begin(), gone_.end(), false); });
  std::vector<std::thread> threads;
  const auto leave = [&](std::size_t i) {
    timeline_.change([&] { gone_[i] = true; });
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

void Group::trace(const Call& call, int step, Nanoseconds begin, Nanoseconds end) {
  if (!options_.trace) return;
  const Step& s = call.step(step);
  const bool put = s.kind == Step::Kind::put;
  options_.trace->add(
      {call.in_group(put ? s.to : s.rank), put ? Trace::Track::transfers : Trace::Track::computation,
       call.name.text() + " " + (s.kind == Step::Kind::reduce ? "reduces " : "") + text_of(s.piece), begin,
       end, s.bytes});
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
    if (!call) call = std::make_shared<Call>(members, name, part, rank);
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
    join(call, rank, std::move(part));
  });
  return result;
}

void Group::join(const std::shared_ptr<Call>& call, int rank, CollectiveCall&& part) {
  Call::Rank& own = call->rank(rank);
  own.call = std::move(part);
  own.begun = true;
  for (std::size_t i = 0; i < call->schedule.steps.size(); ++i)
    start_if_ready(call, static_cast<int>(i));
}

// Puts that become ready at the same time are sent in the order of steps, whichever thread is first.
void Group::start_if_ready(const std::shared_ptr<Call>& call, int step) {
  const auto i = static_cast<std::size_t>(step);
  const Step& s = call->step(step);
  if (call->asked[i] || call->missing[i] > 0 || !call->rank(s.rank).begun) return;
  if (s.kind == Step::Kind::put) {
    if (!call->rank(s.to).begun) return;
    call->asked[i] = true;
    timeline_.at_locked(timeline_.now_locked(), when_it_asks(step, s.rank),
                        {.done = [this, call, step] { send(call, step); }});
  } else if (call->in_background) {
    call->asked[i] = true;
    reduce_in_background(call, step);
  }
}

void Group::send(const std::shared_ptr<Call>& call, int step) {
  if (aborted_) return;
  const Step& s = call->step(step);
  const int from = call->in_group(s.rank), to = call->in_group(s.to);
  const Passage p = ports_.pass(from, to, s.bytes, timeline_.now_locked());
  call->begins[static_cast<std::size_t>(step)] = p.begin;
  const auto count_copies = [this, from, to](int change) {
    copies_[static_cast<std::size_t>(from)] += change;
    copies_[static_cast<std::size_t>(to)] += change;
  };
  timeline_.at_locked(p.arrival, when_it_ends(step, s.rank),
                      {.begins =
                           [this, call, &s, step, count_copies] {
                             const bool there =
                                 !aborted_ && !call->rank(s.rank).failed && !call->rank(s.to).failed;
                             if (there) count_copies(1);
                             // Without a link, a rank copies when it waits, which may be much later.
                             if (there && options_.clock == ClockKind::wall && options_.link.is_free())
                               call->begins[static_cast<std::size_t>(step)] = timeline_.now_locked();
                             return there;
                           },
                       .work =
                           [this, call, &s, from, to] { // a rank does not leave while its memory is copied
                             copy_between(device(to), call->rank(s.to).call.part.place(s.piece), device(from),
                                          call->rank(s.rank).call.part.place(s.piece), s.bytes);
                           },
                       .done =
                           [this, call, step, count_copies] {
                             count_copies(-1);
                             end(call, step);
                           },
                       .is_long = s.bytes >= long_copy});
}

void Group::reduce_in_background(const std::shared_ptr<Call>& call, int step) {
  const Step& s = call->step(step);
  const int here = call->in_group(s.rank);
  const CollectiveCall& own = call->rank(s.rank).call;
  Nanoseconds& until = reduces_until_[static_cast<std::size_t>(here)];
  call->begins[static_cast<std::size_t>(step)] = until = std::max(until, timeline_.now_locked());
  if (options_.clock == ClockKind::virtual_time && own.cost) until = later(until, own.cost(s));
  const auto thrown = std::make_shared<std::optional<std::string>>();
  timeline_.at_locked(until, when_it_ends(step, s.rank),
                      {.begins =
                           [this, call, &s, here, step] {
                             const bool there = !aborted_ && !call->rank(s.rank).failed;
                             if (there) ++copies_[static_cast<std::size_t>(here)];
                             if (there && options_.clock == ClockKind::wall)
                               call->begins[static_cast<std::size_t>(step)] = timeline_.now_locked();
                             return there;
                           },
                       .work =
                           [call, &s, thrown] {
                             Call::Rank& rank = call->rank(s.rank);
                             const std::lock_guard one_at_a_time(rank.reducing);
                             try {
                               rank.call.part.run(s);
                             } catch (const std::exception& e) {
                               *thrown = e.what();
                             } catch (...) {
                               *thrown = "it threw what is no std::exception";
                             }
                           },
                       .done =
                           [this, call, here, step, thrown] {
                             --copies_[static_cast<std::size_t>(here)];
                             if (*thrown)
                               return abort_locked(here,
                                                   "rank " + std::to_string(here) + " failed: " + **thrown);
                             end(call, step);
                           },
                       .is_long = true});
}

void Group::end(const std::shared_ptr<Call>& call, int step) {
  const auto i = static_cast<std::size_t>(step);
  const Step& s = call->step(step);
  call->ended[i] = true;
  trace(*call, step, call->begins[i], timeline_.now_locked());
  if (s.kind == Step::Kind::put)
    --call->rank(s.rank).unfinished, --call->rank(s.to).unfinished;
  else if (call->in_background)
    --call->rank(s.rank).unfinished;
  for (int follower : call->followers[i]) {
    --call->missing[static_cast<std::size_t>(follower)];
    start_if_ready(call, follower);
  }
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
      failure = aborted_ ? *aborted_ : delay_of(call, rank, {number});
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
    record_end(call.in_group(rank), call.rank(rank).name, true);
  });
  timeline_.wait([&] { return copies_[number] == 0; });
  take_part(call, rank);
}

// Nothing uses what the rank passed any more, and the rank may destroy what that refers to.
void Group::take_part(Call& call, int rank) {
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
  timeline_.change([&] {
    const Call::Rank& own = call.rank(rank);
    done = failure_of(call, rank) ||
           (own.begun && own.unfinished == 0 && call.all_have_begun() && call.in_background);
  });
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
  const std::shared_ptr<Call> self = call.shared_from_this();
  if (deadline == 0) deadline = call.rank(rank).call.deadline;
  if (deadline == 0) deadline = options_.deadline;
  const int number = call.in_group(rank);
  try {
    if (!call.in_background) compute_all(self, rank, deadline);
    wait(call, rank, deadline,
         [&] { return call.rank(rank).begun && call.rank(rank).unfinished == 0 && call.all_have_begun(); });
  } catch (const CommError&) {
    leave(call, rank);
    throw;
  } catch (const std::exception& e) {
    abort(number, "rank " + std::to_string(number) + " failed: " + e.what());
    leave(call, rank);
    throw;
  } catch (...) {
    abort(number, "rank " + std::to_string(number) + " failed: it threw what is no std::exception");
    leave(call, rank);
    throw;
  }
  take_part(call, rank);
  timeline_.change([&] {
    call.rank(rank).left = true;
    record_end(number, call.name, false);
    if (std::all_of(call.ranks.begin(), call.ranks.end(), [](const Call::Rank& r) { return r.left; }))
      calls_.erase({call.members->id, call.name.sequence});
  });
}

void Group::compute_all(const std::shared_ptr<Call>& call, int rank, Nanoseconds deadline) {
  wait(*call, rank, deadline, [&] { return call->rank(rank).begun; }); // unless the call differs from others'
  const CollectiveCall& own = call->rank(rank).call;
  for (std::size_t i = 0; i < call->schedule.steps.size(); ++i) {
    const int step = static_cast<int>(i);
    const Step& s = call->step(step);
    if (s.rank != rank || s.kind == Step::Kind::put) continue;
    wait(*call, rank, deadline, [&] { return call->missing[i] == 0; });
    call->begins[i] = timeline_.now();
    own.part.run(s);
    if (options_.clock == ClockKind::virtual_time && own.cost) {
      bool over = false;
      timeline_.at(later(timeline_.now(), own.cost(s)), when_it_ends(step, s.rank),
                   {.done = [&] { over = true; }});
      timeline_.wait([&] { return over; });
    }
    timeline_.change([&] { end(call, step); });
  }
}

} // namespace kiln::collectives
