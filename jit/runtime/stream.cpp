// Streams: the public face of command queues.
#include <kiln/jit/runtime/stream.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/command_queue.h>
#include <kiln/jit/runtime/event_state.h>
#include <kiln/jit/runtime/log.h>

#include <string>

namespace kiln {
namespace {

detail::CommandQueue& used(const std::unique_ptr<detail::CommandQueue>& queue) {
  if (!queue) throw UserError("use of a stream that was moved from; use the stream it was moved to");
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

void close(std::unique_ptr<detail::CommandQueue>& queue) noexcept {
  if (!queue) return;
  queue->drain();
  try {
    if (queue->failed()) log_error("a stream was destroyed with an error: " + message_of(queue->error()));
  } catch (...) {
  } // no memory for the message: nothing is left to do in a destructor
  queue.reset();
}

} // namespace

Stream::Stream(Device device) : queue_(std::make_unique<detail::CommandQueue>()), device_(device) {}
Stream::~Stream() { close(queue_); }
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&& other) noexcept {
  if (this == &other) return *this;
  close(queue_);
  queue_ = std::move(other.queue_);
  device_ = other.device_;
  return *this;
}

Stream& Stream::default_stream(Device) {
  static auto* cpu = new Stream(Device::cpu());
  return *cpu;
}

void Stream::synchronize() { used(queue_).synchronize(); }
bool Stream::query() const { return used(queue_).idle(); }
bool Stream::failed() const { return used(queue_).failed(); }
void Stream::clear_error() { used(queue_).clear_error(); }

void Stream::enqueue(CommandFn fn, void* payload, std::size_t bytes, EnqueueOptions options) {
  used(queue_).enqueue(fn, payload, bytes, options);
}

void Stream::wait(const Event& event) {
  detail::Occurrence* occurrence = event.state_->latest();
  if (!occurrence) return;
  if (occurrence->done()) return occurrence->release();
  auto wait_for_it = [](void* payload, CommandAction) {
    auto* o = *static_cast<detail::Occurrence**>(payload);
    o->wait();
    o->release();
  };
  try {
    enqueue(wait_for_it, &occurrence, sizeof(occurrence));
  } catch (...) {
    occurrence->release();
    throw;
  }
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
