// Copies between memory of any devices, in the order of a stream.
//
//   Stream stream(Device::cuda(0));
//   copy(stream, on_gpu.data(), on_host.data(), bytes);       // host -> device, or any other direction
//   fill_bytes(stream, on_gpu.data(), 0, bytes);
//   stream.synchronize();
//
// On a stream of a CUDA device either side may be memory of the host or of any CUDA device. Copies of
// ordinary (pageable) host memory may finish before the call returns; from and to pinned memory they are
// asynchronous. On a stream of an emulated device either side may be memory of the host or of any emulated
// device, and what nothing wrote stays unwritten in the copy. On a stream of the CPU both sides are memory of
// the host. Memory must live until the copy has finished.
//
// UserError at the caller's line: a negative number of bytes, a null pointer with any, memory of a device on
// a stream of the CPU or of a CUDA device on one of an emulated device, and bytes past the end of an emulated
// device's allocation. A device that has failed throws its TargetError. Thread-safe.
#pragma once

#include <kiln/jit/runtime/stream.h>

#include <cstdint>
#include <source_location>

namespace kiln {

// `to` and `from` must not overlap on a CUDA device.
void copy(Stream& stream, void* to, const void* from, std::int64_t bytes,
          std::source_location here = std::source_location::current());

// Sets each byte.
void fill_bytes(Stream& stream, void* to, unsigned char value, std::int64_t bytes,
                std::source_location here = std::source_location::current());

namespace detail {

// The same on the device's default stream, waiting for the end.
void copy_now(Device device, void* to, const void* from, std::int64_t bytes, std::source_location here);
void fill_bytes_now(Device device, void* to, unsigned char value, std::int64_t bytes,
                    std::source_location here);

} // namespace detail
} // namespace kiln
