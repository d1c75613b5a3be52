// A CUDA stream, Kiln's own or the caller's. Not for users: Stream stands on it.
#pragma once

#include <kiln/jit/runtime/cuda/event_handle.h>
#include <kiln/jit/runtime/cuda/host_commands.h>

#include <memory>

namespace kiln {
class Stream;
}

namespace kiln::cuda {

// Everything that throws throws the device's sticky error, once there is one. Thread-safe but for
// construction and destruction.
class Queue {
public:
  // A stream that does not wait for the legacy default stream.
  explicit Queue(DeviceState& device);
  // The caller's, which is not destroyed and must outlive this; null is the device's default stream.
  Queue(DeviceState& device, StreamHandle adopted);
  ~Queue(); // waits for the commands of a stream of Kiln's own
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  DeviceState& device() const { return device_; }
  StreamHandle handle() const { return handle_; }
  LaunchHistory& history() { return history_; }

  // The functions of Stream.
  void enqueue(CommandFn fn, const void* payload, std::size_t bytes);
  void synchronize();
  bool idle() const;
  bool failed() const { return device_.lost() || commands_->error().failed(); }
  void clear_error();
  // Throws the error of a host command if there is one.
  void check_commands() const { commands_->error().check(); }
  // Before destruction: waits for a stream of Kiln's own, and discards what cannot run any more. Returns the
  // error that nobody was told of: a host command's, or the device's that was found here; null if there is
  // none.
  std::exception_ptr finish() noexcept;

  // Either pointer may be of any device or of the host. Pageable host memory may be copied before the call
  // returns.
  void copy(void* to, const void* from, std::int64_t bytes);
  void fill(void* to, unsigned char value, std::int64_t bytes);
  void record(EventHandleOwner& event);
  void wait(const EventHandleOwner& event); // of any device

  // Between the begin and the end of a graph's capture, when commands are recorded instead of run.
  bool capturing() const;
  // UserError if it is capturing: `call` needs the commands to run.
  void check_not_capturing(const char* call) const;

private:
  void drain() noexcept;

  DeviceState& device_;
  StreamHandle handle_ = nullptr;
  bool owned_;
  std::shared_ptr<HostCommands> commands_ = std::make_shared<HostCommands>();
  LaunchHistory history_;
};

// The one behind a stream of a CUDA device. UserError for other streams.
Queue& queue_of(Stream& stream);

} // namespace kiln::cuda
