// Allocates memory of a CUDA device for a few commands of one stream. Internal.
#pragma once

#include <kiln/jit/runtime/cuda/memory.h>
#include <kiln/jit/runtime/stream.h>

namespace kiln::cuda {

// The memory is allocated and freed in the order of the stream, so the host does not wait if the device has
// memory pools. If a graph is captured, each launch of the graph has its own block.
class StreamMemory {
public:
  // UserError if there is no memory.
  StreamMemory(Stream& stream, std::int64_t bytes, std::source_location here);
  ~StreamMemory(); // frees without reporting failures, for use when an exception is thrown
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;

  void* data() const { return reinterpret_cast<void*>(pointer_); }
  // Frees the memory after the commands that have been queued.
  void free();

private:
  Queue& queue_;
  DevicePointer pointer_ = 0;
  std::uint64_t bytes_;
};

} // namespace kiln::cuda
