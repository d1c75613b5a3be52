// Executes steps: a step begins when the steps before it have ended and its ranks are there.
#include <kiln/collectives/threads/group_call.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

namespace kiln::collectives {
namespace {

constexpr std::int64_t long_copy = 256 << 10; // bytes: takes longer than to wake a thread
// Bytes of a put, or of all puts of a call, that take less time to copy than another thread takes to begin.
constexpr std::int64_t small_put = 512, small_call = 64 << 10;

} // namespace

void Group::trace(const Call& call, int step, Nanoseconds begin, Nanoseconds end) {
  const Step& s = call.step(step);
  const bool put = s.kind == Step::Kind::put;
  options_.trace->add(
      {call.in_group(put ? s.to : s.rank), put ? Trace::Track::transfers : Trace::Track::computation,
       call.name.text() + " " + (s.kind == Step::Kind::reduce ? "reduces " : "") + text_of(s.piece), begin,
       end, s.bytes});
}

void Group::join(Call& call, int rank, CollectiveCall&& part) {
  Call::Rank& own = call.rank(rank);
  own.call = std::move(part);
  own.begun = true;
  ++call.begun;
  start_first(call, rank);
  copy_small_pieces();
}

void Group::start_first(Call& call, int rank) {
  const std::vector<int>& first = call.schedule->graph.of(rank).first;
  std::vector<int> steps = std::exchange(call.rank(rank).postponed, {});
  if (steps.empty()) {
    for (int step : first)
      start_if_ready(call, step);
    return;
  }
  steps.insert(steps.end(), first.begin(), first.end());
  std::sort(steps.begin(), steps.end());
  for (int step : steps)
    start_if_ready(call, step);
}

// Puts that become ready at the same time are sent in the order of steps, whichever thread is first.
// Without a link, the order does not matter, as no port is ever occupied.
void Group::start_if_ready(Call& call, int step) {
  const Step& s = call.step(step);
  Call::StepState& state = call.state(step);
  if (state.asked || state.missing > 0) return;
  const bool put = s.kind == Step::Kind::put;
  if (!put && !call.in_background) return;
  for (int rank : {s.rank, put ? s.to : s.rank})
    if (!call.rank(rank).begun) {
      if (!s.after.empty()) call.rank(rank).postponed.push_back(step);
      return;
    }
  state.asked = true;
  if (!put) return reduce_in_background(call, step);
  if (options_.clock == ClockKind::wall && options_.link.is_free()) return send(call, step);
  timeline_.at_locked(timeline_.now_locked(), when_it_asks(call, step), {.done = [c = &call, step] {
                        c->group.send(*c, step);
                        return false;
                      }});
}

bool Group::begin_use(Call& call, int step) {
  const Step& s = call.step(step);
  const bool put = s.kind == Step::Kind::put;
  if (aborted_ || call.rank(s.rank).failed || (put && call.rank(s.to).failed)) return false;
  ++copies_[static_cast<std::size_t>(call.in_group(s.rank))];
  if (put) ++copies_[static_cast<std::size_t>(call.in_group(s.to))];
  // Without a link, a rank copies when it waits, which may be much later.
  if (options_.trace && options_.clock == ClockKind::wall && (!put || options_.link.is_free()))
    call.state(step).begin = timeline_.now_locked();
  return true;
}

void Group::end_use(const Call& call, int step) {
  const Step& s = call.step(step);
  --copies_[static_cast<std::size_t>(call.in_group(s.rank))];
  if (s.kind == Step::Kind::put) --copies_[static_cast<std::size_t>(call.in_group(s.to))];
}

void Group::send(Call& call, int step) {
  if (aborted_) return;
  const Step& s = call.step(step);
  if (is_small(call, s)) return small_puts_.push_back({&call, step});
  const Passage p = ports_.pass(call.in_group(s.rank), call.in_group(s.to), s.bytes, timeline_.now_locked());
  call.state(step).begin = p.begin;
  timeline_.at_locked(p.arrival, when_it_ends(call, step),
                      {.begins = [c = &call, step] { return c->group.begin_use(*c, step); },
                       .work =
                           [c = &call, step] { // a rank does not leave while its memory is copied
                             const Step& put = c->step(step);
                             const auto device = [&](int rank) { return c->group.device(c->in_group(rank)); };
                             copy_between(device(put.to), c->rank(put.to).call.part.place(put.piece),
                                          device(put.rank), c->rank(put.rank).call.part.place(put.piece),
                                          put.bytes);
                           },
                       .done =
                           [c = &call, step] {
                             c->group.end_use(*c, step);
                             return c->group.end(*c, step);
                           },
                       .is_long = s.bytes >= long_copy});
}

// Without a link, small pieces are copied as soon as they are ready, with the lock.
bool Group::is_small(const Call& call, const Step& put) const {
  if (options_.clock != ClockKind::wall || !options_.link.is_free()) return false;
  if (put.bytes > small_put && call.schedule->graph.bytes() > small_call) return false;
  return device(call.in_group(put.rank)).is_cpu() && device(call.in_group(put.to)).is_cpu();
}

bool Group::copy_small_pieces() {
  bool matters = false;
  while (!small_puts_.empty()) {
    const auto [call, step] = small_puts_.back();
    small_puts_.pop_back();
    const Step& s = call->step(step);
    if (!begin_use(*call, step)) continue;
    if (s.bytes > 0)
      std::memcpy(call->rank(s.to).call.part.place(s.piece), call->rank(s.rank).call.part.place(s.piece),
                  static_cast<std::size_t>(s.bytes));
    end_use(*call, step);
    matters |= end_one(*call, step);
  }
  return matters;
}

void Group::reduce_in_background(Call& call, int step) {
  const Step& s = call.step(step);
  const int here = call.in_group(s.rank);
  const CollectiveCall& own = call.rank(s.rank).call;
  Nanoseconds& until = reduces_until_[static_cast<std::size_t>(here)];
  call.state(step).begin = until = std::max(until, timeline_.now_locked());
  if (options_.clock == ClockKind::virtual_time && own.cost) until = later(until, own.cost(s));
  timeline_.at_locked(until, when_it_ends(call, step),
                      {.begins = [c = &call, step] { return c->group.begin_use(*c, step); },
                       .work =
                           [c = &call, step] {
                             const Step& reduction = c->step(step);
                             Call::Rank& rank = c->rank(reduction.rank);
                             const std::lock_guard one_at_a_time(rank.reducing);
                             try {
                               rank.call.part.run(reduction);
                             } catch (const std::exception& e) {
                               c->group.fail(c->in_group(reduction.rank), e.what());
                             } catch (...) {
                               c->group.fail(c->in_group(reduction.rank),
                                             "it threw what is no std::exception");
                             }
                           },
                       .done =
                           [c = &call, step] {
                             c->group.end_use(*c, step);
                             return c->group.aborted_ || c->group.end(*c, step);
                           },
                       .is_long = true});
}

bool Group::end(Call& call, int step) {
  const bool matters = end_one(call, step);
  return copy_small_pieces() || matters;
}

bool Group::end_one(Call& call, int step) {
  const Step& s = call.step(step);
  Call::StepState& state = call.state(step);
  state.ended = true;
  if (options_.trace) trace(call, step, state.begin, timeline_.now_locked());
  bool matters = waits_for_copies_;
  const auto has_ended = [&](int rank) { matters |= --call.rank(rank).unfinished == 0; };
  const bool put = s.kind == Step::Kind::put;
  if (put || call.in_background) has_ended(s.rank);
  if (put) has_ended(s.to);
  for (int follower : call.schedule->graph.followers(step)) {
    if (--call.state(follower).missing > 0) continue;
    start_if_ready(call, follower);
    matters |= !call.in_background && call.step(follower).kind != Step::Kind::put;
  }
  return matters;
}

} // namespace kiln::collectives
