// Implements Event: each call of record() creates an occurrence, to which waiting threads refer. Internal.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace kiln::cuda {
class DeviceState;
class EventHandleOwner;
} // namespace kiln::cuda

namespace kiln::detail {

// One record of an event. The Event, the command that completes the occurrence, and the commands that wait
// for it share it; a reference count says when it can be deleted.
class Occurrence {
public:
  Occurrence* retain() {
    references_.fetch_add(1, std::memory_order_relaxed);
    return this;
  }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  bool unshared() const { return references_.load(std::memory_order_acquire) == 1; }

  ~Occurrence();
  void begin(); // makes an occurrence pending, which nothing else may share
  // Makes an occurrence, which nothing else may share, one that the driver records on `device`. `word_` is
  // unused then.
  cuda::EventHandleOwner& begin_on(cuda::DeviceState& device);
  // Null if the occurrence is of the CPU.
  const cuda::EventHandleOwner* cuda_event() const { return on_cuda_ ? cuda_event_.get() : nullptr; }
  void complete();
  bool done() const;
  void wait();
  std::int64_t time_ns() const { return time_ns_; } // valid when done

private:
  std::atomic<std::uint32_t> references_{1};
  std::atomic<std::uint32_t> word_{0}; // pending, done, or pending with sleeping threads
  std::uint32_t fork_generation_ = 0;
  std::int64_t time_ns_ = 0;
  bool on_cuda_ = false;
  std::unique_ptr<cuda::EventHandleOwner> cuda_event_; // kept, so that the next record can reuse it
};

class EventState {
public:
  ~EventState();
  // Returns a pending occurrence that is not the latest yet, with a reference for the caller.
  Occurrence* prepare();
  // Makes an occurrence the latest.
  void publish(Occurrence* occurrence);
  // The latest occurrence with a reference for the caller, or null.
  Occurrence* latest() const;

private:
  mutable std::mutex mutex_;
  Occurrence* latest_ = nullptr;
  // An old occurrence that is reused, so that recording in a loop does not allocate.
  Occurrence* spare_ = nullptr;
};

} // namespace kiln::detail
