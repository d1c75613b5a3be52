// Implements the two clocks: a thread that runs events when they are due, and one that the last waiting
// thread moves on.
#include <kiln/collectives/threads/timeline.h>

#include <kiln/jit/base/futex.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace kiln::collectives {
namespace {

Nanoseconds system_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace

Timeline::Timeline(ClockKind kind, Options options) : kind_(kind), options_(options), began_(system_now()) {
  if (kind_ == ClockKind::wall && options_.later_events) thread_ = std::thread([this] { run_events(); });
}

Timeline::~Timeline() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Timeline::Participant::Participant(Timeline& timeline) : timeline_(timeline) {
  const std::lock_guard lock(timeline_.mutex_);
  ++timeline_.running_;
}
Timeline::Participant::~Participant() {
  std::unique_lock lock(timeline_.mutex_);
  --timeline_.running_;
  timeline_.let_time_pass(lock);
}

Nanoseconds Timeline::now() const {
  if (kind_ == ClockKind::wall) return system_now() - began_;
  const std::lock_guard lock(mutex_);
  return virtual_now_;
}

Nanoseconds Timeline::now_locked() const {
  return kind_ == ClockKind::wall ? system_now() - began_ : virtual_now_;
}

void Timeline::at(Nanoseconds time, EventOrder order, Event event) {
  const std::lock_guard lock(mutex_);
  at_locked(time, order, std::move(event));
}

void Timeline::at_locked(Nanoseconds time, EventOrder order, Event event) {
  if (kind_ == ClockKind::virtual_time) time = std::max(time, virtual_now_);
  events_.emplace(Place{time, order, added_++}, std::move(event));
  if (!participants_run_events()) return changed_.notify_all();
  ++changes_;
  wake_helper();
}

// Wakes a participant that sleeps, if there are events for it to run, and no other will soon run them.
void Timeline::wake_helper() {
  if (events_.empty() || awake_ > busy_ || awake_ >= options_.most_helpers) return;
  const auto sleeper =
      std::find_if(waiting_.begin(), waiting_.end(), [](const Waiter* w) { return !w->helps; });
  if (sleeper == waiting_.end()) return;
  (*sleeper)->helps = true;
  ++awake_;
  (*sleeper)->wakes.notify_one();
}

// Threads that poll hold the lock for less than a microsecond, which is less than it takes to sleep and to
// be woken. Each attempt takes the cache line of the lock from the thread that has it, so there is a pause
// between them.
std::unique_lock<std::mutex> Timeline::take_lock() const {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (options_.active_wait > 0)
    for (int i = 0; i < 200; ++i) {
      if (lock.try_lock()) return lock;
      for (int pause = 0; pause < 8; ++pause)
        cpu_relax();
    }
  lock.lock();
  return lock;
}

void Timeline::wake(Waiter& waiter, WaitEnd end) {
  waiter.woken = true;
  waiter.end = end;
  ++running_;
  waiter.wakes.notify_one();
}

void Timeline::wake_ready() {
  ++changes_;
  std::erase_if(waiting_, [&](Waiter* waiter) {
    if (!(*waiter->ready)()) return false;
    wake(*waiter, WaitEnd::ready);
    return true;
  });
}

WaitEnd Timeline::wait(const std::function<bool()>& ready, Nanoseconds deadline) {
  std::unique_lock lock = take_lock();
  if (participants_run_events()) {
    ++awake_;
    const WaitEnd end = wait_and_help(lock, ready, deadline);
    --awake_;
    wake_helper(); // for what this participant leaves
    return end;
  }
  if (ready()) return WaitEnd::ready;
  Waiter self{&ready, deadline};
  waiting_.push_back(&self);
  --running_;
  if (kind_ == ClockKind::virtual_time) {
    let_time_pass(lock);
    self.wakes.wait(lock, [&] { return self.woken; });
    return self.end;
  }
  if (sleep(lock, self)) return self.end;
  std::erase(waiting_, &self);
  ++running_;
  return WaitEnd::late;
}

// Waits on the wall clock until the waiter is woken, or until its deadline, at which it returns false.
bool Timeline::sleep(std::unique_lock<std::mutex>& lock, Waiter& waiter) {
  const auto woken = [&] { return waiter.woken || waiter.helps; };
  if (waiter.deadline > never - began_) { // beyond the range of the system's clock
    waiter.wakes.wait(lock, woken);
    return true;
  }
  const auto until =
      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(began_ + waiter.deadline));
  return waiter.wakes.wait_until(lock, until, woken);
}

WaitEnd Timeline::wait_and_help(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready,
                                Nanoseconds deadline) {
  Nanoseconds poll_until = now_locked() + options_.active_wait;
  for (;;) {
    if (ready()) return WaitEnd::ready;
    const Nanoseconds now = now_locked();
    if (now >= deadline) return WaitEnd::late;
    if (!events_.empty()) {
      run_event(lock);
      poll_until = now_locked() + options_.active_wait;
    } else if (now < poll_until) {
      poll(lock, std::min(poll_until, deadline));
    } else {
      Waiter self{&ready, deadline};
      waiting_.push_back(&self);
      --running_, --awake_;
      sleep(lock, self);
      if (!self.helps) ++awake_; // otherwise wake_helper has counted it
      if (self.woken) return self.end;
      std::erase(waiting_, &self);
      ++running_;
    }
  }
}

// Waits actively for a change.
void Timeline::poll(std::unique_lock<std::mutex>& lock, Nanoseconds until) {
  const std::uint64_t seen = changes_.load();
  lock.unlock();
  while (changes_.load(std::memory_order_acquire) == seen && system_now() - began_ < until)
    for (int i = 0; i < 16 && changes_.load(std::memory_order_relaxed) == seen; ++i)
      cpu_relax();
  lock = take_lock();
}

void Timeline::run_due() {
  if (!participants_run_events()) return;
  std::unique_lock lock(mutex_);
  ++awake_;
  while (!events_.empty())
    run_event(lock);
  --awake_;
}

void Timeline::spend(Nanoseconds duration) {
  if (kind_ == ClockKind::wall || duration <= 0) return;
  Nanoseconds until;
  {
    const std::lock_guard lock(mutex_);
    until = later(virtual_now_, duration);
  }
  // A deadline that nothing else ends.
  wait([] { return false; }, until);
}

void Timeline::run_event(std::unique_lock<std::mutex>& lock) {
  auto next = events_.extract(events_.begin());
  if (next.mapped().begins && !next.mapped().begins()) return;
  if (next.mapped().work) {
    const bool busy = participants_run_events() && next.mapped().is_long;
    if (busy) ++busy_, wake_helper();
    lock.unlock();
    next.mapped().work();
    lock = take_lock();
    if (busy) --busy_;
  }
  if (!next.mapped().done || next.mapped().done()) wake_ready();
}

void Timeline::let_time_pass(std::unique_lock<std::mutex>& lock) {
  if (kind_ == ClockKind::wall || passing_) return;
  passing_ = true;
  while (running_ == 0 && !waiting_.empty()) {
    const auto first =
        std::min_element(waiting_.begin(), waiting_.end(),
                         [](const Waiter* a, const Waiter* b) { return a->deadline < b->deadline; });
    const Nanoseconds deadline = (*first)->deadline,
                      event = events_.empty() ? never : std::get<0>(events_.begin()->first);
    if (deadline == never && event == never) {
      for (Waiter* waiter : std::exchange(waiting_, {}))
        wake(*waiter, WaitEnd::stuck);
      break;
    }
    virtual_now_ = std::min(event, deadline);
    if (event <= deadline) { // what arrives at a deadline is in time
      run_event(lock);
      continue;
    }
    for (Waiter* waiter : std::vector(waiting_))
      if (waiter->deadline == deadline) {
        std::erase(waiting_, waiter);
        wake(*waiter, WaitEnd::late);
      }
  }
  passing_ = false;
}

void Timeline::run_events() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (events_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const Nanoseconds time = later(began_, std::get<0>(events_.begin()->first));
    if (system_now() >= time)
      run_event(lock);
    else if (time == never)
      changed_.wait(lock);
    else
      changed_.wait_until(lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time)));
  }
}

} // namespace kiln::collectives
