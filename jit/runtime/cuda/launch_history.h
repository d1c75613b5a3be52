// Which kernels may have caused an error that the driver reports later. Not for users.
#pragma once

#include <kiln/dsl/error.h>

#include <mutex>
#include <string>

namespace kiln::cuda {

// Of one stream, or of a device. The driver reports what a kernel did wrong in some later call; until the
// stream has been waited for, every kernel launched on it may be the one. Thread-safe.
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
  // After a wait without an error: what was launched before is innocent.
  void clear() {
    std::lock_guard lock(mutex_);
    count_ = 0;
  }
  // Of a stream: " in kernel "add", launched at add.cpp:12", or "" if nothing is in flight.
  std::string in_flight() const;
  // Of a device: " after kernel "add" was launched at add.cpp:12", or "" if none ever was.
  std::string last() const;

private:
  mutable std::mutex mutex_;
  Launch last_;
  long count_ = 0;
};

} // namespace kiln::cuda
