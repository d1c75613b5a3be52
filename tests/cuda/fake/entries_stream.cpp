// Implements the fake driver's entry points for streams and events.
#include "entry.h"

#include <chrono>
#include <memory>
#include <mutex>

using namespace fake;
using namespace kiln::cuda;

namespace fake {

Stream& stream_of(StreamHandle handle) {
  if (handle) return *reinterpret_cast<Stream*>(handle);
  std::lock_guard lock(state().mutex);
  auto& slot = state().default_streams[current()->device];
  if (!slot) slot = std::make_unique<Stream>(*current());
  return *slot;
}

Result push(StreamHandle handle, std::function<void()> command) {
  Stream& s = stream_of(handle);
  if (&s.context != current()) return Result::InvalidHandle;
  Context* context = &s.context;
  s.push([context, command = std::move(command)] {
    if (!context->lost) command();
  });
  return Result::Success;
}

} // namespace fake

namespace {

// Commands that record or wait for an event share it, so that it may be destroyed before they run.
using EventOwner = std::shared_ptr<fake::Event>;
const EventOwner& event_of(EventHandle handle) { return *reinterpret_cast<EventOwner*>(handle); }

} // namespace

FAKE_ENTRY cuStreamCreate(StreamHandle* handle, unsigned) {
  ENTER(true);
  *handle = reinterpret_cast<StreamHandle>(new fake::Stream(*current()));
  state().count("streams", 1, *handle);
  return Result::Success;
}

FAKE_ENTRY cuStreamDestroy_v2(StreamHandle handle) {
  ENTER(true);
  auto* stream = &stream_of(handle);
  stream->wait();
  delete stream;
  state().count("streams", -1, handle);
  return Result::Success;
}

FAKE_ENTRY cuStreamQuery(StreamHandle handle) {
  ENTER(true);
  return stream_of(handle).idle() ? lost(*current()) : Result::NotReady;
}

FAKE_ENTRY cuStreamSynchronize(StreamHandle handle) {
  ENTER(true);
  if (stream_of(handle).capturing) return Result::StreamCaptureUnsupported;
  stream_of(handle).wait();
  return lost(*current());
}

FAKE_ENTRY cuStreamWaitEvent(StreamHandle handle, EventHandle event, unsigned) {
  ENTER(true);
  EventOwner e = event_of(event);
  long version;
  {
    std::lock_guard lock(e->mutex);
    version = e->recorded;
  }
  return push(handle, [e, version] {
    std::unique_lock lock(e->mutex);
    e->changed.wait(lock, [&] { return e->completed >= version; });
  });
}

FAKE_ENTRY cuLaunchHostFunc(StreamHandle handle, HostFunction function, void* argument) {
  ENTER(true);
  return push(handle, [=] { function(argument); });
}

FAKE_ENTRY cuEventCreate(EventHandle* event, unsigned) {
  ENTER(true);
  *event = reinterpret_cast<EventHandle>(new EventOwner(std::make_shared<fake::Event>()));
  state().count("events", 1, *event);
  return Result::Success;
}

FAKE_ENTRY cuEventDestroy_v2(EventHandle event) {
  ENTER(true);
  delete reinterpret_cast<EventOwner*>(event);
  state().count("events", -1, event);
  return Result::Success;
}

FAKE_ENTRY cuEventRecord(EventHandle event, StreamHandle handle) {
  ENTER(true);
  EventOwner e = event_of(event);
  long version;
  {
    std::lock_guard lock(e->mutex);
    version = ++e->recorded;
  }
  // The record completes on a lost device too.
  stream_of(handle).push([e, version] {
    std::lock_guard lock(e->mutex);
    e->completed = version;
    e->time = std::chrono::steady_clock::now();
    e->changed.notify_all();
  });
  return Result::Success;
}

FAKE_ENTRY cuEventQuery(EventHandle event) {
  ENTER(true);
  EventOwner e = event_of(event);
  std::lock_guard lock(e->mutex);
  return e->completed == e->recorded ? lost(*current()) : Result::NotReady;
}

FAKE_ENTRY cuEventSynchronize(EventHandle event) {
  ENTER(true);
  EventOwner e = event_of(event);
  std::unique_lock lock(e->mutex);
  e->changed.wait(lock, [&] { return e->completed == e->recorded; });
  return lost(*current());
}

FAKE_ENTRY cuEventElapsedTime(float* ms, EventHandle begin, EventHandle end) {
  ENTER(true);
  const auto taken = event_of(end)->time - event_of(begin)->time;
  const auto fixed = std::chrono::nanoseconds(state().setting("elapsed_ns"));
  *ms = std::chrono::duration<float, std::milli>(fixed.count() ? fixed : taken).count();
  return Result::Success;
}
