// Defines StreamMemory, memory for the intermediate results of a few commands of one stream. Internal.
//
//   StreamMemory partial(stream, bytes, here);
//   ...                                         // queue commands that use partial.data()
//   partial.free();                             // after these commands; the host does not wait
//
// The memory is allocated and freed in the order of the stream. For CUDA devices whose driver has memory
// pools, the driver does this. Elsewhere the block is a Buffer, which a command at the end of the stream
// frees. After the first calls, blocks come from a cache, and nothing is allocated on the heap.
//
// If a CUDA graph is being captured from the stream, the memory belongs to the graph (cuda/graph.h):
// allocation and release are nodes of the graph, and between them the driver provides memory at the captured
// address in each launch. Its contents do not persist from one launch to the next. Without memory pools, the
// graph owns the block until the graph is destroyed.
#pragma once

#include <kiln/jit/runtime/buffer.h>
#include <kiln/jit/runtime/stream.h>

namespace kiln {

class StreamMemory {
public:
  // Allocates `bytes` bytes; nothing, with a null data(), if `bytes` is 0. Throws UserError if there is not
  // enough memory.
  StreamMemory(Stream& stream, std::int64_t bytes, std::source_location here);
  // Frees the memory if free() was not called, as after an exception; failures are not reported.
  ~StreamMemory();
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;

  void* data() const { return data_; }
  // Frees the memory after the commands that are queued on the stream so far; the host does not wait.
  void free();

private:
  Stream& stream_;
  std::int64_t bytes_;
  void* data_ = nullptr;
  Buffer buffer_; // of devices other than CUDA devices
};

} // namespace kiln
