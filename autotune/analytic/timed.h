// Times launches on a device until somebody has no time for that.
#pragma once

#include <kiln/autotune/stop.h>
#include <kiln/jit/runtime/stream.h>

#include <functional>

namespace kiln::tune {

// Nobody waits for the rest.
struct Stopped {};

// Not thread-safe; `stop` must outlive it.
class Timed {
public:
  Timed(Device device, const Stop& stop) : stream_(device), stop_(stop) {}

  Device device() const { return stream_.device(); }
  // The least seconds of one call, of batches for 80 ms: a few milliseconds each by the host's clock, or
  // where kernels run on a CUDA device by its own, short ones in graphs. Throws Stopped.
  double least_seconds(const std::function<void(Stream&)>& launch);

private:
  double on_host(const std::function<void(Stream&)>& launch);
  double on_cuda(const std::function<void(Stream&)>& launch);
  double seconds_of(const std::function<void(Stream&)>& batch); // by events
  void check() const;

  Stream stream_;
  const Stop& stop_;
};

} // namespace kiln::tune
