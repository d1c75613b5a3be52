// Times launches on a device, until a callback ends it.
#pragma once

#include <kiln/autotune/stop.h>
#include <kiln/jit/runtime/stream.h>

#include <functional>

namespace kiln::tune {

// Thrown when the callback ended the timing.
struct Stopped {};

// Not thread-safe. `stop` must outlive the object.
class Timed {
public:
  Timed(Device device, const Stop& stop) : stream_(device), stop_(stop) {}

  Device device() const { return stream_.device(); }
  // Returns the least seconds of one call, over batches that take 80 ms in total and a few milliseconds each.
  // Kernels on a CUDA device are timed by its own clock, short ones in graphs; others by the host's clock.
  // Throws Stopped.
  double least_seconds(const std::function<void(Stream&)>& launch);

private:
  double on_host(const std::function<void(Stream&)>& launch);
  double on_cuda(const std::function<void(Stream&)>& launch);
  double seconds_of(const std::function<void(Stream&)>& batch); // measured with events
  void check() const;

  Stream stream_;
  const Stop& stop_;
};

} // namespace kiln::tune
