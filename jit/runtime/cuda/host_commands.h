// Commands of the host in the order of a CUDA stream. Not for users.
#pragma once

#include <kiln/jit/runtime/cpu/command_error.h>
#include <kiln/jit/runtime/cuda/device_state.h>
#include <kiln/jit/runtime/stream.h>

#include <memory>
#include <vector>

namespace kiln::cuda {

// The host commands of one stream. The driver runs them on a thread of its own, where CUDA must not be
// called. A command runs once: by the driver, or with CommandAction::Discard when an earlier one threw, or
// when the device failed, after which the driver runs none. Shared with the commands in flight, so that it
// may outlive its stream. Thread-safe.
class HostCommands : public std::enable_shared_from_this<HostCommands> {
public:
  // Queues a command; the payload is copied. If it throws, nothing was queued.
  void enqueue(DeviceState& device, StreamHandle stream, CommandFn fn, const void* payload, std::size_t bytes,
               const LaunchHistory& suspects);
  // For a failed device: discards what the driver will not run.
  void discard_all() noexcept;

  detail::CommandError& error() { return error_; }
  bool runs_here() const; // on a thread that runs a command of this stream now

private:
  struct Command;
  static void run(void* command) noexcept;
  void call(Command& command, CommandAction action) noexcept;
  bool take(Command* command); // true for the first who asks

  mutable std::mutex mutex_; // guards what follows
  std::vector<Command*> pending_;
  detail::CommandError error_; // guards itself
};

} // namespace kiln::cuda
