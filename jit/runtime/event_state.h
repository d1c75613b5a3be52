// What an Event refers to: the occurrences of its records. Not for users.
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

// One record of an event. It is shared by the Event, the command that will complete it and the
// commands that wait for it, and counts them.
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
  void begin(); // makes an unshared occurrence pending
  // Makes an unshared occurrence one of the device's, to be recorded there; the word has no part in it then.
  cuda::EventHandleOwner& begin_on(cuda::DeviceState& device);
  // Null if it is of the CPU.
  const cuda::EventHandleOwner* cuda_event() const { return on_cuda_ ? cuda_event_.get() : nullptr; }
  void complete();
  bool done() const;
  void wait();
  std::int64_t time_ns() const { return time_ns_; } // valid once done

private:
  std::atomic<std::uint32_t> references_{1};
  std::atomic<std::uint32_t> word_{0}; // pending, done, or pending with sleepers
  std::uint32_t fork_generation_ = 0;
  std::int64_t time_ns_ = 0;
  bool on_cuda_ = false;
  std::unique_ptr<cuda::EventHandleOwner> cuda_event_; // kept for the next record
};

class EventState {
public:
  ~EventState();
  // A pending occurrence, retained for the caller, that is not yet the latest.
  Occurrence* prepare();
  // Makes it the latest.
  void publish(Occurrence* occurrence);
  // The latest, retained for the caller, or null.
  Occurrence* latest() const;

private:
  mutable std::mutex mutex_;
  Occurrence* latest_ = nullptr;
  Occurrence* spare_ = nullptr; // an old one to use again, so that recording in a loop does not allocate
};

} // namespace kiln::detail
