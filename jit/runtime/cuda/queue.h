// Wraps a CUDA stream, created by Kiln or by the caller. Internal: Stream uses it.
#pragma once

#include <kiln/jit/runtime/cuda/event_handle.h>
#include <kiln/jit/runtime/cuda/host_commands.h>

#include <atomic>
#include <memory>

namespace kiln {
class Stream;
}

namespace kiln::cuda {

class GraphMemory;

// Once the device has a sticky error, every function that can throw throws it. Thread-safe except for
// construction and destruction.
class Queue {
public:
  // Creates a stream that does not synchronize with the legacy default stream.
  explicit Queue(DeviceState& device);
  // Adopts a stream of the caller, which this does not destroy and which must outlive it. Null means the
  // default stream.
  Queue(DeviceState& device, StreamHandle adopted);
  ~Queue(); // waits for the commands if the stream is Kiln's own
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  DeviceState& device() const { return device_; }
  StreamHandle handle() const { return handle_; }
  LaunchHistory& history() { return history_; }

  // These implement the functions of Stream.
  void enqueue(CommandFn fn, const void* payload, std::size_t bytes);
  void synchronize();
  bool idle() const;
  bool failed() const { return device_.lost() || commands_->error().failed(); }
  void clear_error();
  // Throws the error of a host command, if there is one.
  void check_commands() const { commands_->error().check(); }
  // For the destructor of Stream: waits if the stream is Kiln's own, and discards commands that cannot run
  // any more. Returns an error that was not reported, of a host command or of the device, or else null.
  std::exception_ptr finish() noexcept;

  // `to` and `from` may be memory of any device or of the host. Pageable host memory may be copied before the
  // call returns.
  void copy(void* to, const void* from, std::int64_t bytes);
  void fill(void* to, unsigned char value, std::int64_t bytes);
  void record(EventHandleOwner& event);
  void wait(const EventHandleOwner& event); // the event may be of any device

  // Whether a graph is being captured from this stream, so that commands are recorded and do not run.
  bool capturing() const;
  // The memory of the graph that a GraphCapture is capturing from this stream; null otherwise.
  GraphMemory* graph_memory() const { return graph_memory_.load(std::memory_order_relaxed); }
  void set_graph_memory(GraphMemory* memory) { graph_memory_.store(memory, std::memory_order_relaxed); }
  // UserError if it is capturing, because `call` needs the commands to run.
  void check_not_capturing(const char* call) const;

private:
  void drain() noexcept;

  DeviceState& device_;
  StreamHandle handle_ = nullptr;
  bool owned_;
  std::atomic<GraphMemory*> graph_memory_{nullptr};
  std::shared_ptr<HostCommands> commands_ = std::make_shared<HostCommands>();
  LaunchHistory history_;
};

// The queue behind a stream of a CUDA device. UserError for other streams.
Queue& queue_of(Stream& stream);

// Whether a CUDA graph is being captured from a stream of any device, so that its commands do not run now.
bool is_capturing(Stream& stream);

} // namespace kiln::cuda
