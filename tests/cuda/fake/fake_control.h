// Controls the fake CUDA driver and reads its state. The library of the fake driver exports these functions.
#pragma once

#include <cstdint>

extern "C" {

// A kernel that the fake driver ran.
struct FakeLaunch {
  char kernel[64];
  char entry_point[32]; // "cuLaunchKernelEx", ...
  int device;
  unsigned grid[3], block[3], cluster[3]; // cluster: 0 if not specified
  unsigned shared_bytes;
  int local_bytes; // per thread
  int cooperative;
  int argument_count;
  std::uint64_t arguments[64]; // only the first 64
  void* stream;
};

// A launch with its image and arguments, for a function that executes it.
struct FakeExecution {
  const char* image; // PTX or a cubin
  std::uint64_t image_bytes;
  const char* kernel;
  unsigned grid[3], block[3];
  int argument_count;
  const std::uint64_t* arguments; // zero-extended to 64 bits
  const int* argument_bytes;
  void* context; // the context of fake_cuda_execute
};

// Settings:
// - driver_version (default 12040), devices (32), memory_bytes (per device), sm (90), pools, cooperative
// - pageable: kernels can access all memory of the host
// - clocks: the driver reports them; 0: as zero, -1: returns an error
// - ptx: the newest PTX version that it accepts (84)
// - spills: kernels have 64 bytes of local memory; 1: those that declare one block per multiprocessor, 2:
//   those that do not, 3: all
// - kernel_ms: how long kernels take
// - elapsed_ns: the time between any two events; 0: the time that passed on the host
// - kernel_result: the result of the next kernel to run; if it is an error, the device is lost
void fake_cuda_set(const char* setting, long long value);
// The nth call of a function from now (1 is the next) returns this code and does nothing else.
void fake_cuda_fail(const char* function, int nth, int code);
// From now on the driver lacks this function.
void fake_cuda_hide(const char* function);
// Resets settings, failures, hidden functions and the log of launches. Objects and lost devices remain.
void fake_cuda_reset();

// While it is on, the driver counts no calls, injects no failures and does not log launches, so that the cost
// of a launch is Kiln's.
void fake_cuda_swallow(int on);

// The number of live objects: contexts, modules, streams, events, graphs, execs, links, memory and pinned
// (blocks), bytes (of device memory), pools.
long long fake_cuda_live(const char* kind);
long long fake_cuda_calls(const char* function); // since the last reset
// Copies the newest `most` launches, oldest first, and returns the number of all launches.
int fake_cuda_launches(FakeLaunch* out, int most);
// From now on kernels other than add_one call this function on the thread of their stream. It returns the
// result of the kernel, 0 for success. Null: they do nothing.
void fake_cuda_execute(int (*run)(const FakeExecution*), void* context);
// The number of blocks with overwritten guard bytes that have been found so far, among living and freed ones.
long long fake_cuda_damaged_guards();

// The environment variable FAKE_CUDA has the same effect before the first call:
// "driver_version=11080;fail=cuInit:1:999; hide=cuMemAlloc".
}
