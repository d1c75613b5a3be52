// Asynchronous queues, which execute commands in order.
//
//   Stream stream;                                  // on the CPU
//   kernel.launch(stream, config, a, b);            // returns at once
//   stream.host_function([](void* p) { ... }, p);   // runs after the kernel
//   stream.synchronize();                           // waits; throws what a command threw
//
// The commands of a stream run one after the other, in the order in which they were launched. Commands of
// different streams may run in any order and at the same time, unless an Event orders them.
//
// On the CPU, a command runs in one of three places: on the stream's own thread (started by the first
// command that needs it); on a thread that calls synchronize(), which executes queued commands instead of
// sleeping; or inside the launching call, if the stream is idle and the command is marked `small`, because
// waking a thread would take longer. Therefore a command must not wait for a lock that a launching or waiting
// thread holds. After many short launches in a row, each followed directly by synchronize(), the stream's
// thread is not woken any more. The first launch after them without a synchronize() may start half a
// millisecond late, unless query() is called.
//
// Errors are sticky. If a command throws, the commands behind it are discarded (but events complete), and the
// exception is thrown by synchronize() and by every later launch until clear_error(). The same holds for
// errors of commands that ran inside the launching call.
//
// A stream on a CUDA device is a stream of the driver, created by Kiln or adopted from the caller. Its
// commands run on the device, and host functions on a thread of the driver, where no CUDA device may be used.
// If a host function throws, later host functions are discarded, but the device's commands are not. If the
// device fails, nothing runs on it any more, and every later call throws its TargetError.
//
// Cost on the CPU: a launch copies its arguments into a ring of fixed slots. It does not allocate and takes
// no lock. If all slots are in use, the launch waits for one.
//
// Thread-safe except for construction, moves and destruction. After fork(), streams are empty in the child,
// and queued commands run in the parent alone. Do not fork inside a command, or while another thread launches
// or compiles, because the child can never acquire locks that such a thread holds.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/device.h>
#include <kiln/jit/runtime/event.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>

namespace kiln::detail {
class CommandQueue;
} // namespace kiln::detail
namespace kiln::cuda {
class Queue;
} // namespace kiln::cuda

KILN_API_BEGIN
namespace kiln {

class Stream;
namespace cuda {
KILN_INTERNAL Queue& queue_of(Stream& stream);
} // namespace cuda

// Says what a command function must do. A command function is called exactly once: with Run, or with Discard if an
// earlier command has failed, in which case it must only release what its payload owns.
enum class CommandAction : std::uint8_t { Run, Discard };
using CommandFn = void (*)(void* payload, CommandAction action);

struct EnqueueOptions {
  // The command takes less time than waking a thread (about 20 us). On an idle stream it runs inside
  // enqueue().
  bool small = false;
};

class Stream {
public:
  explicit Stream(Device device = Device::cpu());
  ~Stream(); // waits for all commands (except of an adopted stream) and logs an unreported error
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;

  // Makes a Stream of a CUDA stream of the caller: a CUstream or cudaStream_t of the device's primary
  // context; null means the default stream. Kiln's commands run in its order. The caller still owns it, and
  // it must live as long as the result. UserError if `device` is not a CUDA device.
  static Stream adopt(Device device, void* cuda_stream,
                      std::source_location here = std::source_location::current());
  // The driver's handle (CUstream) of a stream on a CUDA device; null for other devices, and for an adopted
  // default stream.
  void* cuda_handle() const;

  // The default stream of a device, which lives until the process ends. Synchronize it before main returns.
  static Stream& default_stream(Device device = Device::cpu());

  Device device() const { return device_; }

  // Waits until all commands that were launched before this call have finished. Throws the stream's error.
  void synchronize();
  // Whether all commands have finished. Does not throw the stream's error.
  bool query() const;
  // Whether a command has failed since the last clear_error().
  bool failed() const;
  // Waits until the queue is empty and forgets the error, so that launches are accepted again.
  void clear_error();

  // Makes later commands wait for the last record of `event`, if it has one. If the stream is on a CUDA
  // device and the event was recorded elsewhere, this call itself waits.
  void wait(const Event& event);
  // Calls `fn(argument)` on the host, in the order of the stream. An exception becomes the stream's error.
  void host_function(void (*fn)(void* argument), void* argument);

  // For code that launches kernels: queues a command. The payload is plain bytes. It is copied into the
  // queue, aligned to 16 bytes and without an allocation up to inline_payload_bytes, or used in place if the
  // command runs inside this call. If enqueue throws, the command was not queued, and the caller still owns
  // the payload.
  void enqueue(CommandFn fn, void* payload, std::size_t bytes, EnqueueOptions options = {});
  static constexpr std::size_t inline_payload_bytes = 224;

private:
  friend class Event;
  friend cuda::Queue& cuda::queue_of(Stream& stream);
  struct Adopted {};
  Stream(Adopted, Device device, void* cuda_stream);

  // At most one of the two is set; neither is set after a move.
  std::unique_ptr<detail::CommandQueue> queue_;
  std::unique_ptr<cuda::Queue> cuda_;
  Device device_;
};

} // namespace kiln
KILN_API_END
