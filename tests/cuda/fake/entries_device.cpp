// Implements the fake driver's entry points for devices and contexts.
#include "entry.h"

#include <cstdio>
#include <iterator>

using namespace fake;
using namespace kiln::cuda;

FAKE_ENTRY cuDeviceGetCount(int* count) {
  ENTER(false);
  *count = static_cast<int>(state().setting("devices"));
  return Result::Success;
}

FAKE_ENTRY cuDeviceGet(DeviceHandle* device, int index) {
  ENTER(false);
  if (index < 0 || index >= state().setting("devices")) return Result::InvalidDevice;
  *device = index;
  return Result::Success;
}

FAKE_ENTRY cuDeviceGetName(char* name, int length, DeviceHandle device) {
  ENTER(false);
  std::snprintf(name, static_cast<std::size_t>(length), "Fake GPU %d", device);
  return Result::Success;
}

FAKE_ENTRY cuDeviceTotalMem_v2(std::size_t* bytes, DeviceHandle) {
  ENTER(false);
  *bytes = static_cast<std::size_t>(state().setting("memory_bytes"));
  return Result::Success;
}

// Returns a clock according to the setting `clocks`: 1 reports it, 0 reports zero, -1 returns an error.
static Result clock(int* value, int kilohertz) {
  const long long mode = state().setting("clocks");
  *value = mode == 1 ? kilohertz : 0;
  return mode < 0 ? Result::InvalidValue : Result::Success;
}

FAKE_ENTRY cuDeviceGetAttribute(int* value, DeviceAttribute attribute, DeviceHandle) {
  ENTER(false);
  using A = DeviceAttribute;
  auto sm = static_cast<int>(state().setting("sm"));
  switch (attribute) {
  case A::MaxThreadsPerBlock: *value = 1024; break;
  case A::MaxBlockDimX:
  case A::MaxBlockDimY: *value = 1024; break;
  case A::MaxBlockDimZ: *value = 64; break;
  case A::MaxGridDimX: *value = 2147483647; break;
  case A::MaxGridDimY:
  case A::MaxGridDimZ: *value = 65535; break;
  case A::MaxSharedMemoryPerBlock: *value = 48 << 10; break;
  case A::WarpSize: *value = 32; break;
  case A::ClockRate: return clock(value, 1'980'000);
  case A::MemoryClockRate: return clock(value, 2'619'000);
  case A::GlobalMemoryBusWidth: *value = 5120; break;
  case A::MaxThreadsPerMultiprocessor: *value = 2048; break;
  case A::MaxSharedMemoryPerMultiprocessor: *value = 228 << 10; break;
  case A::MaxRegistersPerMultiprocessor: *value = 65536; break;
  case A::MultiprocessorCount: *value = 132; break;
  case A::L2CacheSize: *value = 50 << 20; break;
  case A::ComputeCapabilityMajor: *value = sm / 10; break;
  case A::ComputeCapabilityMinor: *value = sm % 10; break;
  case A::CooperativeLaunch: *value = static_cast<int>(state().setting("cooperative")); break;
  case A::MaxSharedMemoryPerBlockOptin: *value = 227 << 10; break;
#ifdef FAKE_CUDA_OLD
  case A::MemoryPoolsSupported: *value = 0; break;
#else
  case A::MemoryPoolsSupported: *value = static_cast<int>(state().setting("pools")); break;
#endif
  case A::PageableMemoryAccess: *value = static_cast<int>(state().setting("pageable")); break;
  case A::ClusterLaunch: *value = sm >= 90; break;
  default: return Result::InvalidValue;
  }
  return Result::Success;
}

FAKE_ENTRY cuDevicePrimaryCtxRetain(ContextHandle* context, DeviceHandle device) {
  ENTER(false);
  *context = reinterpret_cast<ContextHandle>(&state().contexts[device]);
  state().count("contexts", 1, *context);
  return Result::Success;
}

FAKE_ENTRY cuCtxGetCurrent(ContextHandle* context) {
  ENTER(false);
  *context = reinterpret_cast<ContextHandle>(current());
  return Result::Success;
}

FAKE_ENTRY cuCtxPushCurrent_v2(ContextHandle context) {
  ENTER(false);
  ContextStack& stack = context_stack();
  if (stack.count == std::ssize(stack.items)) return Result::InvalidValue;
  stack.items[stack.count++] = reinterpret_cast<Context*>(context);
  return Result::Success;
}

FAKE_ENTRY cuCtxPopCurrent_v2(ContextHandle* context) {
  ENTER(false);
  if (!current()) return Result::InvalidContext;
  *context = reinterpret_cast<ContextHandle>(current());
  --context_stack().count;
  return Result::Success;
}

FAKE_ENTRY cuCtxSynchronize() {
  ENTER(true);
  std::lock_guard lock(state().streams_mutex);
  for (fake::Stream* s : state().streams) {
    if (&s->context != current()) continue;
    if (s->capturing) return Result::StreamCaptureUnsupported;
    s->wait();
  }
  return lost(*current());
}
