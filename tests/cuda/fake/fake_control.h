// What tests tell the fake CUDA driver and ask of it. The functions are exported by the fake's library.
#pragma once

#include <cstdint>

extern "C" {

// One kernel as the fake ran it.
struct FakeLaunch {
  char kernel[64];
  char entry_point[32]; // "cuLaunchKernelEx", ...
  int device;
  unsigned grid[3], block[3], cluster[3]; // cluster: 0 if none was asked for
  unsigned shared_bytes;
  int local_bytes; // of a thread
  int cooperative;
  int argument_count;
  std::uint64_t arguments[64]; // those beyond are not shown
  void* stream;
};

// A launch as the image and the arguments say it, for somebody else to run.
struct FakeExecution {
  const char* image; // PTX, or a cubin
  std::uint64_t image_bytes;
  const char* kernel;
  unsigned grid[3], block[3];
  int argument_count;
  const std::uint64_t* arguments; // with zeros above their sizes
  const int* argument_bytes;
  void* context; // of fake_cuda_execute
};

// Settings: driver_version (12040), devices (32), memory_bytes (of a device), sm (90), pools, cooperative,
// pageable (kernels reach all of the host's memory), clocks (the driver tells them; 0: as zero, -1: refuses),
// ptx (the newest PTX it reads, 84), spills (kernels have 64 bytes of local memory; 1: those told of one
// block a multiprocessor, 2: those not told, 3: all), kernel_ms (how long kernels take), elapsed_ns (the
// time that is told of any two events; 0: what passed on the host), kernel_result (how the next kernel to run
// ends; a device whose kernel ends badly is lost).
void fake_cuda_set(const char* setting, long long value);
// The nth call from now of a function (1 is the next) returns this code and does nothing.
void fake_cuda_fail(const char* function, int nth, int code);
// The driver lacks this function from now on.
void fake_cuda_hide(const char* function);
// Forgets settings, failures, what is hidden, and the log of launches; objects and lost devices stay.
void fake_cuda_reset();

// While it is on, the driver counts no calls, fails none and forgets launches at once: what a launch costs
// then is the caller's.
void fake_cuda_swallow(int on);

// Objects that are alive: contexts, modules, streams, events, graphs, execs, links, memory and pinned
// (blocks), bytes (of device memory), pools.
long long fake_cuda_live(const char* kind);
long long fake_cuda_calls(const char* function); // since the last reset
// Copies the newest `most` launches, oldest first, and returns how many there are.
int fake_cuda_launches(FakeLaunch* out, int most);
// From now on kernels other than add_one run as this function, on their stream's thread; what it returns is
// how the kernel ends, 0 if well. Null: they do nothing.
void fake_cuda_execute(int (*run)(const FakeExecution*), void* context);
// Blocks whose guard bytes were overwritten, found so far among living and freed ones.
long long fake_cuda_damaged_guards();

// The environment variable FAKE_CUDA has the same before the first call:
// "driver_version=11080;fail=cuInit:1:999; hide=cuMemAlloc".
}
