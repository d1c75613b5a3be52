// Opens the CUDA driver when it is first needed. Internal: Device::cuda is the public interface.
//
//   if (auto found = cuda::available(); !found) puts(found.reason.c_str());
//   cuda::driver().cuMemAlloc(&pointer, bytes);
//
// The library is libcuda.so.1 or the one that KILN_CUDA_LIBRARY names. It is opened with dlopen once in a
// process, and never closed. Thread-safe.
#pragma once

#include <kiln/jit/runtime/cuda/api.h>

#include <memory>
#include <source_location>
#include <string>

namespace kiln::cuda {

// CUDA versions, as the driver encodes them: 1000 * major + 10 * minor.
inline constexpr int minimum_version = 12000;
std::string version_text(int version); // "12.4"

// The functions of the driver under their own names. Optional ones may be null.
struct Driver {
#define KILN_CUDA_ENTRY(need, name, version, suffix, ...) Result (*name)(__VA_ARGS__) = nullptr;
#include <kiln/jit/runtime/cuda/entry_points.def>
#undef KILN_CUDA_ENTRY
  int version = 0;      // the newest CUDA version that it supports: 12040 means 12.4
  int device_count = 0; // at least 1
  std::string library;  // the name that was passed to dlopen

  // Text such as "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  std::string describe(Result result) const;
};

// The result of opening a library.
struct Probe {
  std::unique_ptr<const Driver> driver; // null if it cannot be used
  std::string reason;                   // then says why: "no NVIDIA driver: ...; what to do"
};

// Opens a library and initialises the driver. Throws only std::bad_alloc. Only tests call this directly; the
// functions below probe the library of the options once.
Probe probe(const std::string& library);

struct Availability {
  bool usable = false;
  std::string reason; // empty if the driver can be used
  explicit operator bool() const { return usable; }
};

// Whether there is a usable driver with at least one device.
const Availability& available();

// The driver. UserError with available()'s reason if there is none, and in a forked child of a process that
// had opened the driver, where CUDA does not work.
const Driver& driver();

// Whether a thread has called available() or driver() before and the driver is usable. Does not open
// anything.
bool opened();

} // namespace kiln::cuda
