// Starts the fake CUDA driver: versions, names of errors, and lookup of entry points by name.
//
// The fake driver has no GPU. It implements the entry points that Kiln uses (entries_*.cpp) with host memory
// and threads. It is built as libfakecuda.so, and with FAKE_CUDA_OLD as a driver without cuGetProcAddress_v2,
// cuLaunchKernelEx and memory pools. Kernels only appear in the log of launches, except for "add_one(pointer,
// count)", which adds 1.0f to each of `count` floats.
#include "entry.h"

#include <cstring>
#include <dlfcn.h>
#include <string>

using namespace fake;
using namespace kiln::cuda;

FAKE_ENTRY cuInit(unsigned) {
  ENTER(false);
  std::lock_guard lock(state().mutex);
  state().initialised = true;
  return state().settings.at("devices") > 0 ? Result::Success : Result::NoDevice;
}

FAKE_ENTRY cuDriverGetVersion(int* version) {
  ENTER(false);
  *version = static_cast<int>(state().setting("driver_version"));
  return Result::Success;
}

namespace {
struct Name {
  Result result;
  const char *name, *text;
};
constexpr Name names[] = {
    {Result::InvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {Result::OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {Result::NotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {Result::StubLibrary, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {Result::NoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {Result::InvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {Result::InvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {Result::NoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {Result::InvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {Result::UnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {Result::IllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {Result::Assert, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {Result::LaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {Result::SystemNotReady, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {Result::SystemDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {Result::CompatNotSupportedOnDevice, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
     "forward compatibility was attempted on non supported HW"},
    {Result::Unknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};
Result find_name(Result result, const char** text, const char* Name::* member) {
  *text = nullptr;
  for (const Name& n : names)
    if (n.result == result) *text = n.*member;
  return *text ? Result::Success : Result::InvalidValue;
}
} // namespace

FAKE_ENTRY cuGetErrorName(Result result, const char** text) { return find_name(result, text, &Name::name); }
FAKE_ENTRY cuGetErrorString(Result result, const char** text) { return find_name(result, text, &Name::text); }

#ifndef FAKE_CUDA_OLD
FAKE_ENTRY cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t, int* status) {
  struct Symbol {
    const char *name, *suffix;
    int version;
  };
  static const Symbol symbols[] = {
#define KILN_CUDA_ENTRY(need, name, version, suffix, ...) {#name, suffix, version},
#include <kiln/jit/runtime/cuda/entry_points.def>
#undef KILN_CUDA_ENTRY
  };
  *function = nullptr;
  *status = 1; // not found
  {
    std::lock_guard lock(state().mutex);
    if (state().hidden.count(name)) return Result::NotFound;
  }
  Dl_info self;
  dladdr(reinterpret_cast<void*>(&cuInit), &self);
  void* library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  for (const Symbol& s : symbols)
    if (std::strcmp(s.name, name) == 0 && version >= s.version)
      *function = dlsym(library, (std::string(name) + s.suffix).c_str());
  dlclose(library);
  if (!*function) return Result::NotFound;
  *status = 0;
  return Result::Success;
}
#endif
