// Memory of a device, from a cache of freed blocks.
//
//   Buffer b(Device::cpu(), bytes);
//   auto* x = static_cast<float*>(b.data());
//
// The first touch of fresh memory costs more than most kernels that fill it (about 13 times a copy
// with 4 KiB pages), so freed blocks are kept by size class and handed out again, and blocks of 1 MiB
// and more are 2 MiB-aligned and ask for huge pages. Blocks are 64-byte aligned; contents are
// whatever was there. A Buffer must outlive the commands that use it: synchronize before it dies.
//
// A Buffer of a CUDA device is memory of that device, 256-byte aligned, which the host must not touch: see
// copy.h. Making one may wait for the device; freeing one does not.
//
// A Buffer of an emulated device is memory of that device too, 1024-byte aligned and with nothing written
// yet; making and freeing one waits for the kernel that runs there.
//
// Different Buffers may be used from different threads; one Buffer is as thread-safe as an int.
#pragma once

#include <kiln/jit/runtime/device.h>

#include <cstdint>
#include <source_location>

namespace kiln {

class Buffer {
public:
  Buffer() = default;
  // Throws UserError if `bytes` is negative or the device has no such memory; TargetError if a CUDA device
  // failed. Zero bytes own nothing.
  Buffer(Device device, std::int64_t bytes, std::source_location here = std::source_location::current());
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  void* data() const { return data_; } // null if size() is zero
  std::int64_t size() const { return bytes_; }
  Device device() const { return device_; }

  // Gives all cached blocks back to the system and the CUDA devices.
  static void trim();
  // Bytes in cached blocks, which no Buffer owns, of the host and of the CUDA devices together.
  static std::int64_t cached_bytes();

private:
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
  Device device_;
};

} // namespace kiln
