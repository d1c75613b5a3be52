// Queues copies and fills: as commands on the CPU and emulated devices, through the driver on CUDA devices.
#include <kiln/jit/runtime/copy.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/cuda/memory.h>
#include <kiln/jit/runtime/cuda/queue.h>
#include <kiln/jit/runtime/emulated/device_state.h>

#include <string>

namespace kiln {

namespace {

constexpr std::int64_t small_bytes = 64 << 10; // copied in less time than waking a thread takes

void check(const char* call, const char* argument, const void* pointer, std::int64_t bytes,
           std::source_location here) {
  if (bytes < 0)
    throw UserError(here, std::string(call) + " of " + std::to_string(bytes) +
                              " bytes; the number must not be negative");
  if (!pointer)
    throw UserError(here, std::string(call) + " of " + std::to_string(bytes) + " bytes: '" + argument +
                              "' is null; pass memory");
}

// UserError unless commands of the stream can access the memory: that of the host, and on an emulated device
// also that of emulated devices.
void check_reach(const char* call, const char* argument, const Stream& stream, const void* pointer,
                 std::int64_t bytes, std::source_location here) {
  auto fail = [&](const std::string& what) {
    throw UserError(here, std::string(call) + " on a stream of " +
                              (stream.device().is_cpu() ? "the CPU" : to_string(stream.device())) + ": '" +
                              argument + "' " + what);
  };
  std::uint64_t room = 0;
  const int emulated = emulated::device_of_pointer(pointer, &room), cuda = cuda::device_of_pointer(pointer);
  if (cuda >= 0 || (emulated >= 0 && stream.device().is_cpu())) {
    const std::string name =
        cuda >= 0 ? "cuda:" + std::to_string(cuda) : emulated::DeviceState::get(emulated).name();
    fail("is memory of " + name + "; use a stream of " + name);
  }
  if (emulated >= 0 && room < static_cast<std::uint64_t>(bytes))
    fail("has " + std::to_string(room) + " bytes up to the end of its allocation, and " +
         std::to_string(bytes) + " were requested");
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
  check_reach("copy", "to", stream, to, bytes, here);
  check_reach("copy", "from", stream, from, bytes, here);
  Copy command{to, from, bytes};
  auto run = [](void* payload, CommandAction action) {
    auto* c = static_cast<Copy*>(payload);
    if (action == CommandAction::Run) emulated::copy(c->to, c->from, static_cast<std::uint64_t>(c->bytes));
  };
  stream.enqueue(run, &command, sizeof command, {.small = bytes <= small_bytes});
}

void fill_bytes(Stream& stream, void* to, unsigned char value, std::int64_t bytes,
                std::source_location here) {
  if (bytes == 0) return;
  check("fill_bytes", "to", to, bytes, here);
  if (stream.device().kind() == DeviceKind::Cuda) return cuda::queue_of(stream).fill(to, value, bytes);
  check_reach("fill_bytes", "to", stream, to, bytes, here);
  Fill command{to, bytes, value};
  auto run = [](void* payload, CommandAction action) {
    auto* f = static_cast<Fill*>(payload);
    if (action == CommandAction::Run) emulated::fill(f->to, f->value, static_cast<std::uint64_t>(f->bytes));
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
