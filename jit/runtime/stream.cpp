// Implements Stream with command queues of the CPU and with the CUDA driver's streams.
#include <kiln/jit/runtime/stream.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/base/log.h>
#include <kiln/jit/runtime/cpu/command_queue.h>
#include <kiln/jit/runtime/cuda/queue.h>
#include <kiln/jit/runtime/event_state.h>

#include <mutex>
#include <string>
#include <unordered_map>

namespace kiln {
namespace {

[[noreturn]] void refuse_moved_from() {
  throw UserError("use of a stream that was moved from; use the stream it was moved to");
}

detail::CommandQueue& used(const std::unique_ptr<detail::CommandQueue>& queue) {
  if (!queue) refuse_moved_from();
  return *queue;
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

template <class Q> void close(std::unique_ptr<Q>& queue) noexcept {
  if (!queue) return;
  try {
    if (std::exception_ptr error = queue->finish())
      log_error("a stream was destroyed with an error: " + message_of(error));
  } catch (...) {
  } // no memory for the message, and a destructor cannot do anything else
  queue.reset();
}

} // namespace

Stream::Stream(Device device) : device_(device) {
  if (device.kind() == DeviceKind::Cuda)
    cuda_ = std::make_unique<cuda::Queue>(cuda::DeviceState::get(device.index()));
  else
    queue_ = std::make_unique<detail::CommandQueue>();
}

Stream::Stream(Adopted, Device device, void* cuda_stream)
    : cuda_(std::make_unique<cuda::Queue>(cuda::DeviceState::get(device.index()),
                                          static_cast<cuda::StreamHandle>(cuda_stream))),
      device_(device) {}

Stream Stream::adopt(Device device, void* cuda_stream, std::source_location here) {
  if (device.kind() != DeviceKind::Cuda)
    throw UserError(here, "Stream::adopt takes a stream of a CUDA device, and the device is " +
                              to_string(device) + "; pass Device::cuda(index)");
  return Stream(Adopted{}, device, cuda_stream);
}

Stream::~Stream() {
  close(queue_);
  close(cuda_);
}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&& other) noexcept {
  if (this == &other) return *this;
  close(queue_);
  close(cuda_);
  queue_ = std::move(other.queue_);
  cuda_ = std::move(other.cuda_);
  device_ = other.device_;
  return *this;
}

Stream& Stream::default_stream(Device device) {
  static auto* cpu = [] { // on the shared pool, because it outlives scopes
    ThreadPool* const scoped = detail::exchange_scoped_pool(nullptr);
    auto* stream = new Stream(Device::cpu());
    detail::exchange_scoped_pool(scoped);
    return stream;
  }();
  if (device.is_cpu()) return *cpu;
  static std::mutex mutex;
  static auto* streams = new std::unordered_map<Device, Stream>; // never destroyed, like those of the CPU
  std::lock_guard lock(mutex);
  auto found = streams->find(device);
  return found != streams->end() ? found->second : streams->emplace(device, device).first->second;
}

void* Stream::cuda_handle() const { return cuda_ ? cuda_->handle() : nullptr; }

cuda::Queue& cuda::queue_of(Stream& stream) {
  if (stream.cuda_) return *stream.cuda_;
  if (!stream.queue_) refuse_moved_from();
  throw UserError("a stream of " + to_string(stream.device_) +
                  " is used where one of a CUDA device is needed; make it with Stream(Device::cuda(index))");
}

void Stream::synchronize() { cuda_ ? cuda_->synchronize() : used(queue_).synchronize(); }
bool Stream::query() const { return cuda_ ? cuda_->idle() : used(queue_).query(); }
bool Stream::failed() const { return cuda_ ? cuda_->failed() : used(queue_).failed(); }
void Stream::clear_error() { cuda_ ? cuda_->clear_error() : used(queue_).clear_error(); }

void Stream::enqueue(CommandFn fn, void* payload, std::size_t bytes, EnqueueOptions options) {
  cuda_ ? cuda_->enqueue(fn, payload, bytes) : used(queue_).enqueue(fn, payload, bytes, options);
}

void Stream::wait(const Event& event) {
  detail::Occurrence* occurrence = event.state_->latest();
  if (!occurrence) return;
  struct Release {
    detail::Occurrence* occurrence;
    ~Release() {
      if (occurrence) occurrence->release();
    }
  } release{occurrence};
  if (cuda_ && occurrence->cuda_event()) return cuda_->wait(*occurrence->cuda_event());
  if (occurrence->done()) return;
  // The host's event cannot be waited for inside the driver: a host function that waits would hold up the
  // host functions of other streams.
  if (cuda_) return occurrence->wait();
  auto wait_for_it = [](void* payload, CommandAction) {
    Release its{*static_cast<detail::Occurrence**>(payload)};
    its.occurrence->wait();
  };
  enqueue(wait_for_it, &occurrence, sizeof(occurrence));
  release.occurrence = nullptr; // the command owns it now
}

void Stream::host_function(void (*fn)(void*), void* argument) {
  struct Call {
    void (*fn)(void*);
    void* argument;
  } call{fn, argument};
  auto run = [](void* payload, CommandAction action) {
    auto* c = static_cast<Call*>(payload);
    if (action == CommandAction::Run) c->fn(c->argument);
  };
  enqueue(run, &call, sizeof(call));
}

} // namespace kiln
