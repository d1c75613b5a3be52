// Implements streams with streams of the CUDA driver.
#include <kiln/jit/runtime/cuda/queue.h>

#include <kiln/jit/runtime/cuda/current.h>

namespace kiln::cuda {

namespace {

DevicePointer address(const void* pointer) { return reinterpret_cast<DevicePointer>(pointer); }

} // namespace

Queue::Queue(DeviceState& device) : device_(device), owned_(true) {
  Current current(device);
  device.check(device.driver().cuStreamCreate(&handle_, stream_non_blocking), "cuStreamCreate");
}

Queue::Queue(DeviceState& device, StreamHandle adopted) : device_(device), handle_(adopted), owned_(false) {
  Current current(device);
}

Queue::~Queue() {
  if (!owned_) return;
  drain();
  clean_up(device_, [&] { device_.driver().cuStreamDestroy(handle_); });
}

bool Queue::capturing() const {
  Current current(device_);
  int status = 0;
  return device_.driver().cuStreamIsCapturing(handle_, &status) == Result::Success && status != 0;
}

bool is_capturing(Stream& stream) {
  return stream.device().kind() == DeviceKind::Cuda && queue_of(stream).capturing();
}

void Queue::check_not_capturing(const char* call) const {
  if (capturing())
    throw UserError(std::string(call) + " on a stream of " + device_.name() +
                    " that a graph is being captured from, where nothing runs; end the capture before");
}

void Queue::enqueue(CommandFn fn, const void* payload, std::size_t bytes) {
  Current current(device_);
  check_not_capturing("a host function"); // it would run at each replay, but its payload is valid only once
  commands_->enqueue(device_, handle_, fn, payload, bytes, history_);
}

void Queue::synchronize() {
  if (commands_->runs_here())
    throw UserError("a stream's command synchronizes with its own stream, which would wait forever; "
                    "use an event or another stream");
  if (device_.lost()) commands_->discard_all();
  Current current(device_);
  check_not_capturing("synchronize");
  Result result = device_.driver().cuStreamSynchronize(handle_);
  if (is_sticky(result)) commands_->discard_all();
  device_.check(result, "Stream::synchronize", &history_);
  history_.clear();
  check_commands();
}

void Queue::drain() noexcept {
  if (owned_)
    clean_up(device_, [&] {
      Result result = device_.driver().cuStreamSynchronize(handle_);
      device_.check(result, "~Stream", &history_); // keeps a sticky error
    });
  if (device_.lost()) commands_->discard_all();
}

bool Queue::idle() const {
  if (!device_.usable() || capturing()) return true; // querying a stream invalidates its capture
  Current current(device_);
  return device_.driver().cuStreamQuery(handle_) != Result::NotReady;
}

std::exception_ptr Queue::finish() noexcept {
  const bool was_lost = device_.lost();
  drain();
  if (was_lost || !device_.lost()) return commands_->error().unreported();
  try {
    device_.check_usable();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

void Queue::clear_error() {
  if (commands_->runs_here())
    throw UserError("a stream's command clears its own stream's error; do so after synchronize()");
  Current current(device_); // throws if the error cannot be cleared
  check_not_capturing("clear_error");
  device_.check(device_.driver().cuStreamSynchronize(handle_), "Stream::clear_error", &history_);
  history_.clear();
  commands_->error().clear();
}

void Queue::copy(void* to, const void* from, std::int64_t bytes) {
  Current current(device_);
  check_commands();
  Result result =
      device_.driver().cuMemcpyAsync(address(to), address(from), static_cast<std::size_t>(bytes), handle_);
  if (result != Result::Success)
    device_.check(result, "a copy of " + std::to_string(bytes) + " bytes", &history_);
}

void Queue::fill(void* to, unsigned char value, std::int64_t bytes) {
  Current current(device_);
  check_commands();
  Result result =
      device_.driver().cuMemsetD8Async(address(to), value, static_cast<std::size_t>(bytes), handle_);
  if (result != Result::Success)
    device_.check(result, "setting " + std::to_string(bytes) + " bytes", &history_);
}

void Queue::record(EventHandleOwner& event) {
  Current current(device_);
  device_.check(device_.driver().cuEventRecord(event.handle(), handle_), "Event::record", &history_);
}

void Queue::wait(const EventHandleOwner& event) {
  Current current(device_);
  device_.check(device_.driver().cuStreamWaitEvent(handle_, event.handle(), 0), "Stream::wait", &history_);
}

} // namespace kiln::cuda
