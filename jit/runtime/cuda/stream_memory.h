// Memory of a CUDA device for a few commands of one stream. Not for users.
#pragma once

#include <kiln/jit/runtime/cuda/memory.h>
#include <kiln/jit/runtime/stream.h>

namespace kiln::cuda {

// Allocated and freed in the stream's order, so that the host waits for nothing where the device has memory
// pools. While a graph is captured, each of its launches has a block of its own.
class StreamMemory {
public:
  // UserError if there is no memory.
  StreamMemory(Stream& stream, std::int64_t bytes, std::source_location here);
  ~StreamMemory(); // frees, and says nothing of failures: for exceptions
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;

  void* data() const { return reinterpret_cast<void*>(pointer_); }
  // Behind the commands queued so far.
  void free();

private:
  Queue& queue_;
  DevicePointer pointer_ = 0;
  std::uint64_t bytes_;
};

} // namespace kiln::cuda
