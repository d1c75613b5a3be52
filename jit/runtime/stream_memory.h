// Defines StreamMemory, memory for the intermediate results of a few commands of one stream. Internal.
//
//   StreamMemory partial(stream, bytes, here);
//   ...                                         // queue commands that use partial.data()
//   partial.free();                             // after these commands; the host does not wait
//
// The memory is allocated and freed in the order of the stream. CUDA devices with memory pools do this in the
// driver. Elsewhere the block is a Buffer, which a last command of the stream frees. After the first calls,
// blocks come from a cache, and nothing is allocated on the heap.
//
// If a CUDA graph is captured from the stream, the memory belongs to the graph (cuda/graph.h): allocation and
// release are nodes, and between them the driver provides memory at the captured address in each launch. Its
// contents do not survive a launch. Without memory pools the graph owns the block until it is destroyed.
#pragma once

#include <kiln/jit/runtime/buffer.h>
#include <kiln/jit/runtime/stream.h>

namespace kiln {

class StreamMemory {
public:
  // Zero bytes allocate nothing. UserError if there is no memory.
  StreamMemory(Stream& stream, std::int64_t bytes, std::source_location here);
  // Frees without reporting failures, for use when an exception is thrown.
  ~StreamMemory();
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;

  void* data() const { return data_; }
  // Frees the memory after the commands that have been queued.
  void free();

private:
  Stream& stream_;
  std::int64_t bytes_;
  void* data_ = nullptr;
  Buffer buffer_; // of devices other than CUDA devices
};

} // namespace kiln
