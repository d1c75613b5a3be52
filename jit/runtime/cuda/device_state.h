// Holds a CUDA device of the process: its properties, its context, and whether it has failed. Internal.
//
// Kiln uses the primary context, as the CUDA runtime does, so that memory and streams can be shared with
// libraries that use the runtime. The first call that needs the context retains it until the process ends.
//
// Most errors concern one call. After a sticky error (an illegal address, a failed assert) no call on the
// context works any more. It is kept here and thrown by every later call on the device, while other devices
// keep working. Thread-safe.
#pragma once

#include <kiln/jit/runtime/cuda/api.h>
#include <kiln/jit/runtime/cuda/driver.h>
#include <kiln/jit/runtime/cuda/launch_history.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace kiln::cuda {

class Allocator;

// The properties of a device that the driver reports. Sizes are in bytes.
struct Properties {
  std::string name;        // "NVIDIA H200"
  int sm = 0;              // compute capability: 90 means 9.0
  int multiprocessors = 0; // number of streaming multiprocessors
  int warp_size = 32;
  int max_threads_per_block = 0;
  int max_block[3] = {};
  std::int64_t max_grid[3] = {};
  std::int64_t shared_bytes = 0;       // per block, without opting in to more
  std::int64_t shared_bytes_optin = 0; // per block, the most that a function can opt in to
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  // Zero if the driver does not report them; newer drivers may omit clocks.
  std::int64_t clock_hz = 0, memory_clock_hz = 0;
  int memory_bus_bits = 0;
  int multiprocessor_threads = 0;
  int multiprocessor_registers = 0; // of 32 bits each
  std::int64_t multiprocessor_shared_bytes = 0;
  bool cooperative_launch = false;
  bool cluster_launch = false;
  bool memory_pools = false;
  bool pageable_memory_access = false; // kernels can access all memory of the host
};

class DeviceState {
public:
  // Requires 0 <= index < driver().device_count. UserError if there is no driver.
  static DeviceState& get(int index);
  DeviceState(const Driver& driver, int index);
  ~DeviceState();

  const Driver& driver() const { return driver_; }
  int index() const { return index_; }
  const Properties& properties() const { return properties_; }
  std::string name() const { return "cuda:" + std::to_string(index_); }
  // Retained by the first call. TargetError if the driver fails to; the next call tries again.
  ContextHandle context();
  // Created by the first call, which may throw what context() throws. It stays available if the device fails
  // later.
  Allocator& allocator();
  LaunchHistory& history() { return history_; }

  // Throws unless `result` is success: a TargetError that names the device and `call`, such as "cuMemcpyAsync
  // of 12 bytes". For a sticky error, the message also names the kernels of `suspects`, or the last kernel on
  // the device.
  void check(Result result, std::string_view call, const LaunchHistory* suspects = nullptr);
  // Throws the sticky error if there is one, and a UserError where CUDA must not be called: in a forked
  // child, and in a host function of a CUDA stream.
  void check_usable() const;
  // The same without throwing: false in those cases.
  bool usable() const noexcept;
  bool lost() const { return lost_.load(std::memory_order_acquire) != nullptr; }

private:
  [[noreturn]] void lose(Result result, std::string_view call, const LaunchHistory* suspects);

  const Driver& driver_;
  const int index_;
  std::uint32_t fork_generation_;
  DeviceHandle handle_ = 0;
  Properties properties_;
  std::mutex mutex_; // guards the members below, which are initialised once
  std::atomic<ContextHandle> context_{nullptr};
  std::unique_ptr<Allocator> allocator_owner_;
  std::atomic<Allocator*> allocator_{nullptr};
  std::atomic<const std::string*> lost_{nullptr};
  std::unique_ptr<const std::string> lost_text_;
  LaunchHistory history_;
};

// Whether the driver returns `result` from every later call on the context.
bool is_sticky(Result result);

// Marks the calling thread as running a host function of a CUDA stream, which must not call CUDA.
class InHostFunction {
public:
  InHostFunction();
  ~InHostFunction();
  static bool here();

private:
  bool before_;
};

} // namespace kiln::cuda
