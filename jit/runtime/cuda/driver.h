// The CUDA driver, opened when it is first asked for. Not for users; they see Device::cuda.
//
//   if (auto found = cuda::available(); !found) puts(found.reason.c_str());
//   cuda::driver().cuMemAlloc(&pointer, bytes);
//
// The library is libcuda.so.1, or the one that KILN_CUDA_LIBRARY names, opened with dlopen. It is looked for
// once in a process, and kept. Thread-safe.
#pragma once

#include <kiln/jit/runtime/cuda/api.h>

#include <memory>
#include <source_location>
#include <string>

namespace kiln::cuda {

// Versions of CUDA as the driver counts them: 1000 * major + 10 * minor.
inline constexpr int minimum_version = 12000;
std::string version_text(int version); // "12.4"

// The driver's functions, under its own names; optional ones may be null.
struct Driver {
#define KILN_CUDA_ENTRY(need, name, version, suffix, ...) Result (*name)(__VA_ARGS__) = nullptr;
#include <kiln/jit/runtime/cuda/entry_points.def>
#undef KILN_CUDA_ENTRY
  int version = 0;      // the newest CUDA it supports, 12040 for 12.4
  int device_count = 0; // at least 1
  std::string library;  // as it was opened

  // "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
  std::string describe(Result result) const;
};

// What became of the attempt to open a library.
struct Probe {
  std::unique_ptr<const Driver> driver; // null if it cannot be used,
  std::string reason;                   // and why: "no NVIDIA driver: ...; what to do"
};

// Opens a library and initialises it; never throws but for want of memory. For tests: everything else goes
// through the functions below, which probe the library of the options once.
Probe probe(const std::string& library);

struct Availability {
  bool usable = false;
  std::string reason; // empty if it is usable
  explicit operator bool() const { return usable; }
};

// Whether there is a driver that Kiln can use, and a device.
const Availability& available();

// The driver. UserError with available()'s reason if there is none, and in the child of a fork of a process
// that had opened it, where CUDA does not work.
const Driver& driver();

// True if some thread has asked before and the driver is there; opens nothing.
bool opened();

} // namespace kiln::cuda
