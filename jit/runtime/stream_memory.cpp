// Allocates and frees memory in the order of a stream.
#include <kiln/jit/runtime/stream_memory.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/cuda/memory.h>
#include <kiln/jit/runtime/cuda/queue.h>
#include <kiln/jit/runtime/rehearsing.h>

#include <string>
#include <utility>

namespace kiln {
namespace {

cuda::Allocator& allocator_of(Stream& stream) { return cuda::queue_of(stream).device().allocator(); }

// A command that owns the Buffer in its payload.
void free_buffer(void* payload, CommandAction) { static_cast<Buffer*>(payload)->~Buffer(); }

} // namespace

StreamMemory::StreamMemory(Stream& stream, std::int64_t bytes, std::source_location here)
    : stream_(stream), bytes_(bytes) {
  if (bytes == 0) return;
  if (kiln::detail::Rehearsing* rehearsing = kiln::detail::Rehearsing::current()) {
    rehearsing->allocate(bytes);
    data_ = kiln::detail::stand_in_memory(bytes);
    return;
  }
  if (stream.device().kind() != DeviceKind::Cuda) {
    buffer_ = Buffer(stream.device(), bytes, here);
    data_ = buffer_.data();
    return;
  }
  cuda::Allocator& allocator = allocator_of(stream);
  data_ = reinterpret_cast<void*>(
      allocator.allocate_async(cuda::queue_of(stream), static_cast<std::uint64_t>(bytes)));
  if (data_) return;
  const auto memory = allocator.memory();
  throw UserError(here, "no memory for a temporary of " + std::to_string(bytes) + " bytes on " +
                            to_string(stream.device()) + ", which has " + std::to_string(memory.free_bytes) +
                            " free of " + std::to_string(memory.total_bytes) +
                            "; free other buffers, or use an output that overlaps no operand");
}

void StreamMemory::free() {
  if (!data_) return;
  if (kiln::detail::is_stand_in(reinterpret_cast<std::uintptr_t>(data_))) {
    data_ = nullptr;
    return kiln::detail::Rehearsing::current()->free(bytes_);
  }
  if (stream_.device().kind() == DeviceKind::Cuda) {
    const auto pointer = reinterpret_cast<cuda::DevicePointer>(std::exchange(data_, nullptr));
    allocator_of(stream_).free_async(cuda::queue_of(stream_), pointer, static_cast<std::uint64_t>(bytes_));
    return;
  }
  alignas(Buffer) unsigned char payload[sizeof(Buffer)];
  auto* moved = new (payload) Buffer(std::move(buffer_));
  data_ = nullptr;
  try {
    stream_.enqueue(free_buffer, payload, sizeof payload, {.small = true});
  } catch (...) {
    // The stream has failed, so that it discards what uses the memory.
    moved->~Buffer();
    throw;
  }
}

StreamMemory::~StreamMemory() {
  try {
    free();
  } catch (...) { // a device that has failed, whose memory cannot be freed, or a stream that has failed
  }
}

} // namespace kiln
