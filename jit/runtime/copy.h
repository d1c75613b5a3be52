// Copies memory from any device to any other, and fills memory with a byte, in the order of a stream.
//
//   Stream stream(Device::cuda(0));
//   copy(stream, on_gpu.data(), on_host.data(), bytes);       // host -> device, or any other direction
//   fill_bytes(stream, on_gpu.data(), 0, bytes);
//   stream.synchronize();
//
// Both functions return when the work is queued on the stream. The memory must live until the work has
// finished. The stream determines where the memory may be:
// - On a stream of a CUDA device: on the host or on any CUDA device. Copies from and to pinned memory are
//   asynchronous; a copy of ordinary (pageable) host memory may finish before the call returns.
// - On a stream of an emulated device: on the host or on any emulated device. Bytes that were never written
//   still count as unwritten in the copy.
// - On a stream of the CPU: on the host.
//
// They throw UserError, with the file and line of the caller, if the number of bytes is negative, if a
// pointer is null and the number of bytes is not zero, if the stream does not allow the memory, or if the
// bytes extend beyond the end of an allocation on an emulated device; and TargetError if the device has
// failed. Thread-safe.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/stream.h>

#include <cstdint>
#include <source_location>

KILN_API_BEGIN
namespace kiln {

// Copies `bytes` bytes from `from` to `to`. On a CUDA device the two ranges must not overlap.
void copy(Stream& stream, void* to, const void* from, std::int64_t bytes,
          std::source_location here = std::source_location::current());

// Sets `bytes` bytes from `to` on to `value`.
void fill_bytes(Stream& stream, void* to, unsigned char value, std::int64_t bytes,
                std::source_location here = std::source_location::current());

namespace detail {

// Copy or fill memory as copy() and fill_bytes() do, but on the default stream of the device, and return when
// the work is done.
void copy_now(Device device, void* to, const void* from, std::int64_t bytes, std::source_location here);
void fill_bytes_now(Device device, void* to, unsigned char value, std::int64_t bytes,
                    std::source_location here);

} // namespace detail
} // namespace kiln
KILN_API_END
