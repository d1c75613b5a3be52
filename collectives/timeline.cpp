// Implements the two clocks: a thread that runs events when they are due, and one that the last waiting
// thread moves on.
#include <kiln/collectives/timeline.h>

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

Timeline::Timeline(ClockKind kind) : kind_(kind), began_(system_now()) {
  if (kind_ == ClockKind::wall) thread_ = std::thread([this] { run_events(); });
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
  events_.emplace(Place{time, order.number, order.rank, added_++}, std::move(event));
  changed_.notify_all();
}

void Timeline::wake(Waiter& waiter, WaitEnd end) {
  waiter.woken = true;
  waiter.end = end;
  ++running_;
  waiter.wakes.notify_one();
}

void Timeline::wake_ready() {
  std::erase_if(waiting_, [&](Waiter* waiter) {
    if (!(*waiter->ready)()) return false;
    wake(*waiter, WaitEnd::ready);
    return true;
  });
}

WaitEnd Timeline::wait(const std::function<bool()>& ready, Nanoseconds deadline) {
  std::unique_lock lock(mutex_);
  if (ready()) return WaitEnd::ready;
  Waiter self{&ready, deadline};
  waiting_.push_back(&self);
  --running_;
  if (kind_ == ClockKind::virtual_time) {
    let_time_pass(lock);
    self.wakes.wait(lock, [&] { return self.woken; });
    return self.end;
  }
  const auto woken = [&] { return self.woken; };
  if (deadline > never - began_) { // beyond the range of the system's clock
    self.wakes.wait(lock, woken);
    return self.end;
  }
  const auto until = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(began_ + deadline));
  if (self.wakes.wait_until(lock, until, woken)) return self.end;
  std::erase(waiting_, &self);
  ++running_;
  return WaitEnd::late;
}

void Timeline::spend(Nanoseconds duration) {
  if (kind_ == ClockKind::wall || duration <= 0) return;
  Nanoseconds until;
  {
    const std::lock_guard lock(mutex_);
    until = virtual_now_ + duration;
  }
  // A deadline that nothing else ends.
  wait([] { return false; }, until);
}

void Timeline::run_event(std::unique_lock<std::mutex>& lock) {
  auto next = events_.extract(events_.begin());
  if (next.mapped().begins && !next.mapped().begins()) return;
  if (next.mapped().work) {
    lock.unlock();
    next.mapped().work();
    lock.lock();
  }
  if (next.mapped().done) next.mapped().done();
  wake_ready();
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
    const Nanoseconds time = began_ + std::get<0>(events_.begin()->first);
    if (system_now() >= time)
      run_event(lock);
    else
      changed_.wait_until(lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time)));
  }
}

} // namespace kiln::collectives
