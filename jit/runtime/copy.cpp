// Queues copies: as commands on the CPU, through the driver on CUDA devices.
#include <kiln/jit/runtime/copy.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/cuda/memory.h>
#include <kiln/jit/runtime/cuda/queue.h>

#include <cstring>
#include <string>

namespace kiln {

namespace {

constexpr std::int64_t small_bytes = 64 << 10; // copied in less than it takes to wake a thread

void check(const char* call, const char* argument, const void* pointer, std::int64_t bytes,
           std::source_location here) {
  if (bytes < 0)
    throw UserError(here, std::string(call) + " of " + std::to_string(bytes) +
                              " bytes; the number must not be negative");
  if (!pointer)
    throw UserError(here, std::string(call) + " of " + std::to_string(bytes) + " bytes: '" + argument +
                              "' is null; pass memory");
}

void check_of_host(const char* call, const char* argument, const void* pointer, std::source_location here) {
  int device = cuda::device_of_pointer(pointer);
  if (device < 0) return;
  std::string name = "cuda:" + std::to_string(device);
  throw UserError(here, std::string(call) + " on a stream of the CPU: '" + argument + "' is memory of " +
                            name + "; use a stream of " + name);
}

struct Copy {
  void* to;
  const void* from;
  std::int64_t bytes;
};

struct Fill {
  void* to;
  std::int64_t bytes;
  unsigned char value;
};

} // namespace

void copy(Stream& stream, void* to, const void* from, std::int64_t bytes, std::source_location here) {
  if (bytes == 0) return;
  check("copy", "to", to, bytes, here);
  check("copy", "from", from, bytes, here);
  if (stream.device().kind() == DeviceKind::Cuda) return cuda::queue_of(stream).copy(to, from, bytes);
  check_of_host("copy", "to", to, here);
  check_of_host("copy", "from", from, here);
  Copy command{to, from, bytes};
  auto run = [](void* payload, CommandAction action) {
    auto* c = static_cast<Copy*>(payload);
    if (action == CommandAction::Run) std::memmove(c->to, c->from, static_cast<std::size_t>(c->bytes));
  };
  stream.enqueue(run, &command, sizeof command, {.small = bytes <= small_bytes});
}

void fill_bytes(Stream& stream, void* to, unsigned char value, std::int64_t bytes,
                std::source_location here) {
  if (bytes == 0) return;
  check("fill_bytes", "to", to, bytes, here);
  if (stream.device().kind() == DeviceKind::Cuda) return cuda::queue_of(stream).fill(to, value, bytes);
  check_of_host("fill_bytes", "to", to, here);
  Fill command{to, bytes, value};
  auto run = [](void* payload, CommandAction action) {
    auto* f = static_cast<Fill*>(payload);
    if (action == CommandAction::Run) std::memset(f->to, f->value, static_cast<std::size_t>(f->bytes));
  };
  stream.enqueue(run, &command, sizeof command, {.small = bytes <= small_bytes});
}

void detail::copy_now(Device device, void* to, const void* from, std::int64_t bytes,
                      std::source_location here) {
  Stream& stream = Stream::default_stream(device);
  copy(stream, to, from, bytes, here);
  stream.synchronize();
}

void detail::fill_bytes_now(Device device, void* to, unsigned char value, std::int64_t bytes,
                            std::source_location here) {
  Stream& stream = Stream::default_stream(device);
  fill_bytes(stream, to, value, bytes, here);
  stream.synchronize();
}

} // namespace kiln
