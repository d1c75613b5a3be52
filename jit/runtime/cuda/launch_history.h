// Remembers which kernels may have caused an error that the driver reports later. Internal.
#pragma once

#include <kiln/dsl/error.h>

#include <mutex>
#include <string>

namespace kiln::cuda {

// The history of a stream or a device. The driver reports an error of a kernel in some later call. Until a
// wait for the stream has succeeded, each kernel that was launched on it may be the cause. Thread-safe.
class LaunchHistory {
public:
  struct Launch {
    const char* kernel = nullptr; // interned
    SourceLocation site;
  };

  void add(const Launch& launch) {
    std::lock_guard lock(mutex_);
    last_ = launch;
    ++count_;
  }
  // After a wait without an error: the kernels launched before it did not fail.
  void clear() {
    std::lock_guard lock(mutex_);
    count_ = 0;
  }
  // For a stream: " in kernel "add", launched at add.cpp:12", or "" if no kernel is in flight.
  std::string in_flight() const;
  // For a device: " after kernel "add" was launched at add.cpp:12", or "" if none has been launched.
  std::string last() const;

private:
  mutable std::mutex mutex_;
  Launch last_;
  long count_ = 0;
};

} // namespace kiln::cuda
