// Allocates and frees memory in the order of a stream.
#include <kiln/jit/runtime/cuda/stream_memory.h>

#include <kiln/jit/runtime/cuda/queue.h>

#include <utility>

namespace kiln::cuda {

StreamMemory::StreamMemory(Stream& stream, std::int64_t bytes, std::source_location here)
    : queue_(queue_of(stream)), bytes_(static_cast<std::uint64_t>(bytes)) {
  Allocator& allocator = queue_.device().allocator();
  pointer_ = allocator.allocate_async(queue_, bytes_);
  if (pointer_) return;
  const auto memory = allocator.memory();
  throw UserError(here, "no memory for a temporary of " + std::to_string(bytes) + " bytes on " +
                            queue_.device().name() + ", which has " + std::to_string(memory.free_bytes) +
                            " free of " + std::to_string(memory.total_bytes) +
                            "; free other buffers, or use an output that overlaps no operand");
}

void StreamMemory::free() {
  queue_.device().allocator().free_async(queue_, std::exchange(pointer_, 0), bytes_);
}

StreamMemory::~StreamMemory() {
  if (!pointer_) return;
  try {
    free();
  } catch (...) { // the device has failed, so its memory cannot be freed
  }
}

} // namespace kiln::cuda
