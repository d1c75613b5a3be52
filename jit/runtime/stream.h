// In-order asynchronous queues of commands.
//
//   Stream stream;                                  // on the CPU
//   kernel.launch(stream, config, a, b);            // returns at once
//   stream.host_function([](void* p) { ... }, p);
//   stream.synchronize();                           // waits; throws what a command threw
//
// Commands of one stream run in the order they were launched, each after the one before has finished;
// commands of different streams run in any order unless an Event orders them.
//
// Where commands run: on the stream's own thread (started by the first command that needs it), or on a
// thread that waits in synchronize(), which works the queue off instead of sleeping, or, for commands
// marked `small` on an idle stream, inside the launching call, because to wake a thread would cost more
// than to run them. So a command must not wait for a lock that a launching or waiting thread holds. After
// many short launches in a row that were waited for at once the thread is left asleep: the first launch after
// them that is not waited for may begin half a millisecond late, unless query() asks for it.
//
// Errors are sticky. When a command throws, the commands behind it are discarded (events still
// complete), and the exception is thrown by synchronize() and by every later launch until
// clear_error(). Errors of commands that run inside the launching call are reported in the same way.
//
// On a CUDA device a stream is one of the driver's, of Kiln's own or adopted from the caller, and commands
// run on the device, host functions on a thread of the driver, where no CUDA device may be used. When a host
// function throws, the host functions behind it are discarded, the device's commands are not. When the device
// fails, nothing runs on it again, and its TargetError is thrown by every call from then on.
//
// Cost: on the CPU, a launch copies its arguments into a ring of fixed slots; it allocates nothing and takes
// no lock. When all slots are taken, a launch waits for one.
//
// Thread-safe but for construction, moves and destruction. After fork() the child's streams are empty:
// what was queued runs in the parent alone. Do not fork inside a command, nor while another thread launches
// or compiles: the locks that it holds are never released in the child.
#pragma once

#include <kiln/jit/runtime/device.h>
#include <kiln/jit/runtime/event.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>

namespace kiln {

namespace detail {
class CommandQueue;
}
class Stream;
namespace cuda {
class Queue;
Queue& queue_of(Stream& stream);
} // namespace cuda

// What to do with a command's payload. A command function is called exactly once, with Discard if an
// earlier command failed; it must then only release what the payload owns.
enum class CommandAction : std::uint8_t { Run, Discard };
using CommandFn = void (*)(void* payload, CommandAction action);

struct EnqueueOptions {
  // The command takes less time than waking a thread (some 20 us): on an idle stream it runs at once.
  bool small = false;
};

class Stream {
public:
  explicit Stream(Device device = Device::cpu());
  ~Stream(); // waits for all commands (not of an adopted stream); an error nobody asked for is logged
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;

  // A CUDA stream of the caller (a CUstream or cudaStream_t of the device's primary context; null is its
  // default stream), in whose order Kiln's commands then run. It stays the caller's, and must live as long as
  // the result. UserError for a device of another kind.
  static Stream adopt(Device device, void* cuda_stream,
                      std::source_location here = std::source_location::current());
  // The driver's handle (CUstream) of a stream on a CUDA device, which may be null for an adopted one; null
  // elsewhere.
  void* cuda_handle() const;

  // The one of a device, which lives until the process ends: synchronize before leaving main.
  static Stream& default_stream(Device device = Device::cpu());

  Device device() const { return device_; }

  // Waits until every command launched before this call has finished.
  void synchronize();
  // True if every command has finished. Does not report errors.
  bool query() const;
  // True if a command failed and clear_error() was not called since.
  bool failed() const;
  // Waits for the queue to empty and forgets the error; launches are accepted again.
  void clear_error();

  // Later commands wait until the event's last record has finished; nothing if it has none. Where the stream
  // is on a CUDA device and the event is not, this call itself waits.
  void wait(const Event& event);
  // Runs a function of the host in the stream's order. What it throws becomes the stream's error.
  void host_function(void (*fn)(void* argument), void* argument);

  // For launchers: queues a command. `payload` is plain bytes, copied into the queue (up to
  // inline_payload_bytes without allocation, 16-byte aligned) or used in place if the command runs at
  // once. If this throws, the command was not queued and the payload is still the caller's.
  void enqueue(CommandFn fn, void* payload, std::size_t bytes, EnqueueOptions options = {});
  static constexpr std::size_t inline_payload_bytes = 224;

private:
  friend class Event;
  friend cuda::Queue& cuda::queue_of(Stream& stream);
  struct Adopted {};
  Stream(Adopted, Device device, void* cuda_stream);

  // One of the two, or neither once moved from.
  std::unique_ptr<detail::CommandQueue> queue_;
  std::unique_ptr<cuda::Queue> cuda_;
  Device device_;
};

} // namespace kiln
