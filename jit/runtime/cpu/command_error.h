// Keeps the error of a stream's commands on the host, and whether it was reported. Internal.
#pragma once

#include <kiln/dsl/error.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <new>

namespace kiln::detail {

// The last exception that a command threw, kept until clear(). Thread-safe.
class CommandError {
public:
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Throws the error, if there is one, which then counts as reported.
  void check() const {
    if (failed()) report();
  }
  // The error if check() has not thrown it yet, or else null.
  std::exception_ptr unreported() const {
    std::lock_guard lock(mutex_);
    return reported_ ? nullptr : error_;
  }
  void keep(std::exception_ptr error) noexcept {
    std::lock_guard lock(mutex_);
    error_ = std::move(error);
    reported_ = false;
    failed_.store(true, std::memory_order_release);
  }
  void clear() {
    std::lock_guard lock(mutex_);
    error_ = nullptr;
    failed_.store(false, std::memory_order_release);
  }
  // For the child of a fork, where a thread that held the lock does not exist.
  void reset_in_child() noexcept { new (&mutex_) std::mutex; }

private:
  [[noreturn]] void report() const {
    std::lock_guard lock(mutex_);
    if (!error_) throw UserError("the stream's error was cleared during this call; launch again");
    reported_ = true;
    std::rethrow_exception(error_);
  }

  mutable std::mutex mutex_; // guards the members below
  std::exception_ptr error_;
  mutable bool reported_ = false;
  std::atomic<bool> failed_{false};
};

} // namespace kiln::detail
