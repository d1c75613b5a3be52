// Reads a device's properties, retains its context, and keeps its sticky error.
#include <kiln/jit/runtime/cuda/device_state.h>

#include <kiln/jit/base/fork.h>
#include <kiln/jit/runtime/cuda/current.h>
#include <kiln/jit/runtime/cuda/memory.h>

#include <algorithm>
#include <vector>

namespace kiln::cuda {

namespace {

thread_local bool in_host_function = false;

Properties find_properties(const Driver& driver, DeviceHandle device) {
  Properties p;
  bool failed = false;
  Result first = Result::Success;
  auto note = [&](Result r) {
    if (r != Result::Success && !failed) first = r, failed = true;
  };
  auto get = [&](DeviceAttribute attribute) {
    int value = 0;
    note(driver.cuDeviceGetAttribute(&value, attribute, device));
    return value;
  };
  auto get_if_reported = [&](DeviceAttribute attribute) {
    int value = 0;
    return driver.cuDeviceGetAttribute(&value, attribute, device) == Result::Success ? std::max(value, 0) : 0;
  };
  char name[256] = {};
  note(driver.cuDeviceGetName(name, sizeof name - 1, device));
  p.name = name;
  std::size_t memory = 0;
  note(driver.cuDeviceTotalMem(&memory, device));
  p.memory_bytes = static_cast<std::int64_t>(memory);
  using A = DeviceAttribute;
  p.sm = 10 * get(A::ComputeCapabilityMajor) + get(A::ComputeCapabilityMinor);
  p.multiprocessors = get(A::MultiprocessorCount);
  p.warp_size = get(A::WarpSize);
  p.max_threads_per_block = get(A::MaxThreadsPerBlock);
  constexpr A block[] = {A::MaxBlockDimX, A::MaxBlockDimY, A::MaxBlockDimZ};
  constexpr A grid[] = {A::MaxGridDimX, A::MaxGridDimY, A::MaxGridDimZ};
  for (int i = 0; i < 3; ++i)
    p.max_block[i] = get(block[i]), p.max_grid[i] = get(grid[i]);
  p.shared_bytes = get(A::MaxSharedMemoryPerBlock);
  p.shared_bytes_optin = get(A::MaxSharedMemoryPerBlockOptin);
  p.l2_bytes = get(A::L2CacheSize);
  p.clock_hz = std::int64_t{1000} * get_if_reported(A::ClockRate);
  p.memory_clock_hz = std::int64_t{1000} * get_if_reported(A::MemoryClockRate);
  p.memory_bus_bits = get_if_reported(A::GlobalMemoryBusWidth);
  p.multiprocessor_threads = get_if_reported(A::MaxThreadsPerMultiprocessor);
  p.multiprocessor_registers = get_if_reported(A::MaxRegistersPerMultiprocessor);
  p.multiprocessor_shared_bytes = get_if_reported(A::MaxSharedMemoryPerMultiprocessor);
  p.cooperative_launch = get(A::CooperativeLaunch) != 0;
  p.cluster_launch = p.sm >= 90 && get(A::ClusterLaunch) != 0;
  p.pageable_memory_access = get(A::PageableMemoryAccess) != 0;
  p.memory_pools = get(A::MemoryPoolsSupported) != 0;
  if (failed)
    throw TargetError("the CUDA driver does not report a device's properties: " + driver.describe(first));
  return p;
}

} // namespace

bool is_sticky(Result result) {
  switch (result) {
  case Result::EccUncorrectable:
  case Result::NvlinkUncorrectable:
  case Result::Contained:
  case Result::IllegalAddress:
  case Result::LaunchTimeout:
  case Result::ContextIsDestroyed:
  case Result::Assert:
  case Result::HardwareStackError:
  case Result::IllegalInstruction:
  case Result::MisalignedAddress:
  case Result::InvalidAddressSpace:
  case Result::InvalidPc:
  case Result::LaunchFailed:
  case Result::TensorMemoryLeak: return true;
  default: return false;
  }
}

std::string LaunchHistory::in_flight() const {
  std::lock_guard lock(mutex_);
  if (count_ == 0) return {};
  std::string last = "kernel \"" + std::string(last_.kernel) + "\", launched at " + to_string(last_.site);
  if (count_ == 1) return " in " + last;
  return " in one of " + std::to_string(count_) + " kernels in flight, the last of them " + last;
}

std::string LaunchHistory::last() const {
  std::lock_guard lock(mutex_);
  if (!last_.kernel) return {};
  return " after kernel \"" + std::string(last_.kernel) + "\" was launched at " + to_string(last_.site);
}

InHostFunction::InHostFunction() : before_(in_host_function) { in_host_function = true; }
InHostFunction::~InHostFunction() { in_host_function = before_; }
bool InHostFunction::here() { return in_host_function; }

DeviceState& DeviceState::get(int index) {
  const Driver& driver = cuda::driver();
  struct Slot {
    std::atomic<DeviceState*> state{nullptr};
    std::mutex mutex; // held during construction; if that throws, the next call tries again
    std::unique_ptr<DeviceState> owner;
  };
  static auto* slots = new std::vector<Slot>(static_cast<std::size_t>(driver.device_count));
  Slot& slot = slots->at(static_cast<std::size_t>(index));
  if (DeviceState* known = slot.state.load(std::memory_order_acquire)) return *known;
  std::lock_guard lock(slot.mutex);
  if (!slot.owner) {
    slot.owner = std::make_unique<DeviceState>(driver, index);
    slot.state.store(slot.owner.get(), std::memory_order_release);
  }
  return *slot.owner;
}

DeviceState::DeviceState(const Driver& driver, int index)
    : driver_(driver), index_(index), fork_generation_(fork_generation()) {
  check(driver_.cuDeviceGet(&handle_, index), "cuDeviceGet");
  properties_ = find_properties(driver_, handle_);
}

DeviceState::~DeviceState() = default;

ContextHandle DeviceState::context() {
  if (ContextHandle known = context_.load(std::memory_order_acquire)) return known;
  std::lock_guard lock(mutex_);
  if (ContextHandle known = context_.load(std::memory_order_relaxed)) return known;
  ContextHandle context = nullptr;
  check(driver_.cuDevicePrimaryCtxRetain(&context, handle_), "cuDevicePrimaryCtxRetain");
  context_.store(context, std::memory_order_release);
  return context;
}

Allocator& DeviceState::allocator() {
  if (Allocator* known = allocator_.load(std::memory_order_acquire)) return *known;
  Current current(*this);
  std::lock_guard lock(mutex_);
  if (!allocator_owner_) {
    allocator_owner_ = std::make_unique<Allocator>(*this);
    allocator_.store(allocator_owner_.get(), std::memory_order_release);
  }
  return *allocator_owner_;
}

bool DeviceState::usable() const noexcept {
  return !lost() && !in_host_function && fork_generation_ == fork_generation();
}

void DeviceState::check_usable() const {
  if (usable()) return;
  if (fork_generation_ != fork_generation()) cuda::driver(); // throws
  if (const std::string* text = lost_.load(std::memory_order_acquire)) throw TargetError(*text);
  throw UserError("a host function of a CUDA stream uses " + name() +
                  ", which the driver forbids; do so after synchronize()");
}

void DeviceState::check(Result result, std::string_view call, const LaunchHistory* suspects) {
  if (result == Result::Success) return;
  if (is_sticky(result)) lose(result, call, suspects);
  throw TargetError(name() + ": " + std::string(call) + ": " + driver_.describe(result));
}

void DeviceState::lose(Result result, std::string_view call, const LaunchHistory* suspects) {
  std::string blamed = suspects ? suspects->in_flight() : std::string();
  if (blamed.empty()) blamed = history_.last();
  std::string text = name() + " failed" + blamed + ": " + driver_.describe(result) + ", found by " +
                     std::string(call) +
                     "; the device cannot be used again in this process; run with KILN_DEBUG=1, which checks "
                     "indices and waits for each launch";
  std::lock_guard lock(mutex_);
  if (!lost_text_) {
    lost_text_ = std::make_unique<const std::string>(std::move(text));
    lost_.store(lost_text_.get(), std::memory_order_release);
  }
  throw TargetError(*lost_text_);
}

} // namespace kiln::cuda
