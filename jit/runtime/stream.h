// Defines Stream, an asynchronous queue of commands that run in order.
//
//   Stream stream;                                  // on the CPU
//   kernel.launch(stream, config, a, b);            // returns at once
//   stream.host_function([](void* p) { ... }, p);   // runs after the kernel
//   stream.synchronize();                           // waits; throws what a command threw
//
// The commands of a stream run one after the other, in the order in which they were launched. Commands of
// different streams may run in any order and at the same time, unless an Event orders them.
//
// On the CPU, a command runs in one of three places: on the stream's own thread, which the first command that
// needs it starts; on a thread that calls synchronize(), which executes queued commands instead of sleeping;
// or inside the launching call, if the stream is idle and the command is marked `small`, because waking a
// thread would take longer. Therefore a command must not wait for a lock that a launching or waiting thread
// holds. After many short launches in a row, each followed directly by synchronize(), the stream no longer
// wakes its thread. The next launch that is not followed by a synchronize() may then start half a millisecond
// late, unless query() is called.
//
// Errors are sticky. If a command throws, the commands after it are discarded (but events complete), and the
// exception is thrown by synchronize() and by every later launch until clear_error(). The same holds for
// errors of commands that ran inside the launching call.
//
// A stream on a CUDA device is a stream of the driver, created by Kiln or adopted from the caller. Its
// commands run on the device. Host functions run on a thread of the driver, and must not use any CUDA device.
// If a host function throws, later host functions are discarded, but the commands of the device are not. If
// the device fails, nothing runs on it any more, and every later call throws its TargetError.
//
// Cost on the CPU: a launch copies its arguments into a ring of fixed slots. It does not allocate and takes
// no lock. If all slots are in use, the launch waits for one.
//
// Thread-safe except for construction, moves and destruction. After fork(), streams are empty in the child,
// and only the parent runs the queued commands. Do not fork inside a command, or while another thread
// launches or compiles, because the child can never acquire locks that such a thread holds.
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
Queue& queue_of(Stream& stream);
} // namespace kiln::cuda

KILN_API_BEGIN
namespace kiln {

// The action that a command function must take. Each command function is called exactly once: with Run, or
// with Discard if an earlier command has failed, in which case it must only release what its payload owns.
enum class CommandAction : std::uint8_t { Run, Discard };
using CommandFn = void (*)(void* payload, CommandAction action);

struct EnqueueOptions {
  // True if the command takes less time than waking a thread (about 20 us). On an idle stream it then runs
  // inside enqueue().
  bool small = false;
};

class Stream {
public:
  // Makes a stream on a device. Throws TargetError if the device is a CUDA device that has failed.
  explicit Stream(Device device = Device::cpu());
  ~Stream(); // waits for all commands (unless the stream was adopted), and logs an unreported error
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;

  // Makes a Stream from a CUDA stream of the caller: a CUstream or cudaStream_t of the primary context of the
  // device; null means the default stream. Kiln's commands run in its order. The caller still owns the CUDA
  // stream, which must live as long as the result. Throws UserError if `device` is not a CUDA device.
  static Stream adopt(Device device, void* cuda_stream,
                      std::source_location here = std::source_location::current());
  // Returns the driver's handle (CUstream) of a stream on a CUDA device; null for other devices, and for an
  // adopted default stream.
  void* cuda_handle() const;

  // Returns the default stream of a device, which lives until the process ends. Synchronize it before main
  // returns.
  static Stream& default_stream(Device device = Device::cpu());

  Device device() const { return device_; }

  // Waits until all commands that were launched before this call have finished, and throws the error of the
  // stream if one has failed.
  void synchronize();
  // Returns whether all commands have finished. Does not throw the error of the stream.
  bool query() const;
  // Returns whether a command has failed since the last clear_error().
  bool failed() const;
  // Waits until the queue is empty, and forgets the error, so that the stream accepts launches again.
  void clear_error();

  // Makes later commands wait for the last record of `event`, if it has one. If the stream is on a CUDA
  // device and the event was recorded elsewhere, this call itself waits.
  void wait(const Event& event);
  // Calls `fn(argument)` on the host, in the order of the stream. An exception becomes the stream's error.
  void host_function(void (*fn)(void* argument), void* argument);

  // Queues a command; for code that launches kernels. The payload is plain bytes. They are copied into the
  // queue, aligned to 16 bytes and without an allocation up to inline_payload_bytes, or used in place if the
  // command runs inside this call. If enqueue throws, for example the error of the stream, the command was
  // not queued, and the caller still owns the payload.
  void enqueue(CommandFn fn, void* payload, std::size_t bytes, EnqueueOptions options = {});
  static constexpr std::size_t inline_payload_bytes = 224;

private:
  friend class Event;
  friend cuda::Queue& cuda::queue_of(Stream& stream);
  struct Adopted {};
  Stream(Adopted, Device device, void* cuda_stream);

  // At most one of the two pointers is set; neither is set after a move.
  std::unique_ptr<detail::CommandQueue> queue_;
  std::unique_ptr<cuda::Queue> cuda_;
  Device device_;
};

} // namespace kiln
KILN_API_END
