// Runs commands of the host in the order of a CUDA stream. Internal.
#pragma once

#include <kiln/jit/runtime/cpu/command_error.h>
#include <kiln/jit/runtime/cuda/device_state.h>
#include <kiln/jit/runtime/stream.h>

#include <memory>
#include <vector>

namespace kiln::cuda {

// The host commands of one stream. The driver runs them on a thread of its own, on which CUDA must not be
// called. A command runs exactly once: called by the driver; or with CommandAction::Discard, if an earlier
// one threw or if the device failed, after which the driver runs none. Commands in flight share ownership of
// this object, so it may outlive its stream. Thread-safe.
class HostCommands : public std::enable_shared_from_this<HostCommands> {
public:
  // Queues a command; the payload is copied. If this throws, nothing was queued.
  void enqueue(DeviceState& device, StreamHandle stream, CommandFn fn, const void* payload, std::size_t bytes,
               const LaunchHistory& suspects);
  // For a failed device: discards the commands that the driver will not run.
  void discard_all() noexcept;

  detail::CommandError& error() { return error_; }
  bool runs_here() const; // whether the calling thread is running a command of this stream

private:
  struct Command;
  static void run(void* command) noexcept;
  void call(Command& command, CommandAction action) noexcept;
  bool take(Command* command); // true for the first caller only

  mutable std::mutex mutex_; // guards the members below
  std::vector<Command*> pending_;
  detail::CommandError error_; // has its own lock
};

} // namespace kiln::cuda
