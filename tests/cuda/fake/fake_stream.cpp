// Implements the fake driver's streams: each has a thread, which its first command starts.
#include "fake_state.h"

namespace fake {

Stream::Stream(Context& c) : context(c) {
  std::lock_guard lock(State::get().streams_mutex);
  State::get().streams.insert(this);
}

Stream::~Stream() {
  {
    std::lock_guard lock(State::get().streams_mutex);
    State::get().streams.erase(this);
  }
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Stream::push(std::function<void()> command) {
  if (capturing) {
    captured.push_back(std::move(command));
    return;
  }
  {
    std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  changed_.notify_all();
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !commands_.empty(); });
    if (commands_.empty()) return;
    auto command = std::move(commands_.front());
    commands_.pop_front();
    busy_ = true;
    lock.unlock();
    command();
    command = nullptr; // what it owns is gone when a thread that waits for it goes on
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void Stream::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return commands_.empty() && !busy_; });
}

bool Stream::idle() {
  std::lock_guard lock(mutex_);
  return commands_.empty() && !busy_;
}

} // namespace fake
