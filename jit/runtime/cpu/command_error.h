// The error of a stream's host commands, and whether anybody was told. Not for users.
#pragma once

#include <kiln/dsl/error.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <new>

namespace kiln::detail {

// What a command threw last; it stays until it is cleared. Thread-safe.
class CommandError {
public:
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Throws the error if there is one, which somebody is then told of.
  void check() const {
    if (failed()) tell();
  }
  // The one that check() did not throw yet; null if there is none.
  std::exception_ptr untold() const {
    std::lock_guard lock(mutex_);
    return told_ ? nullptr : error_;
  }
  void keep(std::exception_ptr error) noexcept {
    std::lock_guard lock(mutex_);
    error_ = std::move(error);
    told_ = false;
    failed_.store(true, std::memory_order_release);
  }
  void clear() {
    std::lock_guard lock(mutex_);
    error_ = nullptr;
    failed_.store(false, std::memory_order_release);
  }
  // In the child of a fork: a thread that is not there may have held the lock.
  void reset_in_child() noexcept { new (&mutex_) std::mutex; }

private:
  [[noreturn]] void tell() const {
    std::lock_guard lock(mutex_);
    if (!error_) throw UserError("the stream's error was cleared during this call; launch again");
    told_ = true;
    std::rethrow_exception(error_);
  }

  mutable std::mutex mutex_; // guards what follows
  std::exception_ptr error_;
  mutable bool told_ = false;
  std::atomic<bool> failed_{false};
};

} // namespace kiln::detail
