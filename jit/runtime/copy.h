// Copies memory from any device to any other, and fills memory with a byte, in the order of a stream.
//
//   Stream stream(Device::cuda(0));
//   copy(stream, on_gpu.data(), on_host.data(), bytes);       // host -> device, or any other direction
//   fill_bytes(stream, on_gpu.data(), 0, bytes);
//   stream.synchronize();
//
// The stream determines which memory the two sides may be, and the memory must live until the copy has
// finished:
// - stream of a CUDA device: memory of the host or of any CUDA device. Copies from and to pinned memory are
//   asynchronous; a copy of ordinary (pageable) host memory may finish before the call returns.
// - stream of an emulated device: memory of the host or of any emulated device. Bytes that were never written
//   still count as unwritten in the copy.
// - stream of the CPU: memory of the host.
//
// UserError, with the caller's file and line: a negative number of bytes; a null pointer with a positive
// number; memory that the stream does not allow; bytes beyond the end of an allocation on an emulated device.
// TargetError if the device has failed. Thread-safe.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/jit/runtime/stream.h>

#include <cstdint>
#include <source_location>

KILN_API_BEGIN
namespace kiln {

// Copies `bytes` bytes. On a CUDA device the two ranges must not overlap.
void copy(Stream& stream, void* to, const void* from, std::int64_t bytes,
          std::source_location here = std::source_location::current());

// Sets `bytes` bytes to `value`.
void fill_bytes(Stream& stream, void* to, unsigned char value, std::int64_t bytes,
                std::source_location here = std::source_location::current());

namespace detail {

// The same on the device's default stream; they return when the work is done.
void copy_now(Device device, void* to, const void* from, std::int64_t bytes, std::source_location here);
void fill_bytes_now(Device device, void* to, unsigned char value, std::int64_t bytes,
                    std::source_location here);

} // namespace detail
} // namespace kiln
KILN_API_END
