// An object that each process has one of: a forked child makes another.
//
//   static OfProcess<Background> background;
//   background.get().add(...);
//
// For objects with threads and locks. In a forked child the threads are gone and a lock may be held for ever,
// so that the parent's object is neither used nor destroyed there.
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
  T* parents_ = nullptr; // which stays reachable
};

} // namespace kiln::tune
