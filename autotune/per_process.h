// Holds an object of which each process has its own: a forked child creates a new one.
//
//   static OfProcess<Background> background;
//   background.get().add(...);
//
// This is for objects that contain threads and locks. In a forked child the threads do not exist and a lock
// may stay locked forever, so the child neither uses nor destroys the parent's object.
#pragma once

#include <kiln/jit/base/fork.h>

#include <atomic>
#include <memory>

namespace kiln::tune {

template <class T> class OfProcess final : ForkAware {
public:
  OfProcess() = default;
  ~OfProcess() { delete current_.load(); }

  // Thread-safe.
  T& get() {
    T* current = current_.load();
    if (current) return *current;
    auto made = std::make_unique<T>();
    return current_.compare_exchange_strong(current, made.get()) ? *made.release() : *current;
  }

private:
  void reset_in_child() noexcept override { parents_ = current_.exchange(nullptr); }

  std::atomic<T*> current_{nullptr};
  T* parents_ = nullptr; // keeps the parent's object reachable, so that leak checkers do not report it
};

} // namespace kiln::tune
