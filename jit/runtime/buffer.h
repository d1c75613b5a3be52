// Defines Buffer, which owns memory of a device. Freed memory goes to a cache, from which later Buffers take
// it.
//
//   Buffer b(Device::cpu(), bytes);
//   auto* x = static_cast<float*>(b.data());
//
// Host memory is aligned to 64 bytes. Its contents are undefined and may be those of an earlier Buffer. The
// first access to fresh memory takes longer than most kernels that fill it (13 times as long as a copy, with
// pages of 4 KiB). Therefore freed blocks are kept by size class and reused, and blocks of 1 MiB or more are
// aligned to 2 MiB and request huge pages.
//
// A Buffer of a CUDA device is memory of that device, aligned to 256 bytes, which the host must not access:
// see copy.h. Its constructor may wait for the device; its destructor does not.
//
// A Buffer of an emulated device is aligned to 1024 bytes, and its bytes count as unwritten. Its constructor
// and destructor wait for the kernel that runs on that device.
//
// A Buffer must outlive the commands that use it, so synchronize before you destroy it. Different Buffers may
// be used from different threads at the same time; one Buffer needs a lock if several threads modify it.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/device.h>

#include <cstdint>
#include <source_location>

KILN_API_BEGIN
namespace kiln {

class Buffer {
public:
  Buffer() = default;
  // Allocates `bytes` bytes; zero bytes allocate nothing. Throws UserError if `bytes` is negative or the
  // device does not have that much memory, and TargetError if a CUDA device has failed.
  Buffer(Device device, std::int64_t bytes, std::source_location here = std::source_location::current());
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  void* data() const { return data_; } // null if size() is zero
  std::int64_t size() const { return bytes_; }
  Device device() const { return device_; }

  // Returns all cached blocks to the system and to the CUDA devices.
  static void trim();
  // Returns the number of bytes in cached blocks, which no Buffer owns, of the host and all CUDA devices
  // together.
  static std::int64_t cached_bytes();

private:
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
  Device device_;
};

} // namespace kiln
KILN_API_END
