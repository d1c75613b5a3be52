// One CUDA device of the process: what it is, its context, and whether it has failed. Not for users.
//
// Kiln uses the primary context, as the CUDA runtime does, so that memory and streams can be shared with
// libraries that use that. It is retained by the first call that needs it and kept until the process ends.
//
// Errors come in two kinds. Most concern one call. After a sticky one (an illegal address, a failed assert)
// no call on the context works again: it is kept here, and thrown by every later call on the device, while
// the process and its other devices go on. Thread-safe.
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

// Sizes in bytes.
struct Properties {
  std::string name;        // "NVIDIA H200"
  int sm = 0;              // compute capability, 90 for 9.0
  int multiprocessors = 0; // streaming multiprocessors
  int warp_size = 32;
  int max_threads_per_block = 0;
  int max_block[3] = {};
  std::int64_t max_grid[3] = {};
  std::int64_t shared_bytes = 0;       // per block, without opting in
  std::int64_t shared_bytes_optin = 0; // per block, at most
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  // Zero where the driver does not tell; newer ones may leave out clocks.
  std::int64_t clock_hz = 0, memory_clock_hz = 0;
  int memory_bus_bits = 0;
  int multiprocessor_threads = 0;
  int multiprocessor_registers = 0; // of 32 bits
  std::int64_t multiprocessor_shared_bytes = 0;
  bool cooperative_launch = false;
  bool cluster_launch = false;
  bool memory_pools = false;
  bool pageable_memory_access = false; // kernels reach all memory of the host
};

class DeviceState {
public:
  // 0 <= index < driver().device_count. UserError if there is no driver.
  static DeviceState& get(int index);
  DeviceState(const Driver& driver, int index);
  ~DeviceState();

  const Driver& driver() const { return driver_; }
  int index() const { return index_; }
  const Properties& properties() const { return properties_; }
  std::string name() const { return "cuda:" + std::to_string(index_); }
  // Retained by the first call. TargetError if the driver refuses; the next call tries again.
  ContextHandle context();
  // Made by the first call, which may throw as context() does; once made, a lost device has it too.
  Allocator& allocator();
  LaunchHistory& history() { return history_; }

  // Throws for anything but success: TargetError that names the device and `call` ("cuMemcpyAsync of 12
  // bytes"); for a sticky error one that also names the kernels of `suspects`, or the device's last.
  void check(Result result, std::string_view call, const LaunchHistory* suspects = nullptr);
  // Throws the sticky error if there was one, and UserError where CUDA cannot be called: in the child of a
  // fork, and inside a host function of a CUDA stream.
  void check_usable() const;
  // The same without throwing.
  bool usable() const noexcept;
  bool lost() const { return lost_.load(std::memory_order_acquire) != nullptr; }

private:
  [[noreturn]] void lose(Result result, std::string_view call, const LaunchHistory* suspects);

  const Driver& driver_;
  const int index_;
  std::uint32_t fork_generation_;
  DeviceHandle handle_ = 0;
  Properties properties_;
  std::mutex mutex_; // guards what is made once, below
  std::atomic<ContextHandle> context_{nullptr};
  std::unique_ptr<Allocator> allocator_owner_;
  std::atomic<Allocator*> allocator_{nullptr};
  std::atomic<const std::string*> lost_{nullptr};
  std::unique_ptr<const std::string> lost_text_;
  LaunchHistory history_;
};

// True if the driver reports `result` for every later call on the context.
bool is_sticky(Result result);

// While it lives on a thread, that thread runs a host function of a CUDA stream, which must not call CUDA.
class InHostFunction {
public:
  InHostFunction();
  ~InHostFunction();
  static bool here();

private:
  bool before_;
};

} // namespace kiln::cuda
