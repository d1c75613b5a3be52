// Allocates memory of CUDA devices, and host memory that they can access. Internal: Buffer uses it.
//
// If the device supports memory pools, blocks come from a pool of Kiln's own, which keeps freed memory
// (cuMemAllocFromPoolAsync); otherwise from cuMemAlloc, through a cache of freed blocks by size class. If
// there is no memory left, kept memory is returned to the driver and the allocation is tried again.
#pragma once

#include <kiln/jit/runtime/block_cache.h>
#include <kiln/jit/runtime/cuda/device_state.h>

#include <cstdint>
#include <memory>
#include <source_location>
#include <vector>

namespace kiln::cuda {

class Queue;

// The memory of one device. Thread-safe.
class Allocator {
public:
  explicit Allocator(DeviceState& device);
  ~Allocator();
  DeviceState& device() { return device_; }

  // Allocates at least `bytes` > 0, aligned to 256 bytes, for use on any stream. Returns 0 if there is no
  // memory. TargetError for other failures. Commands that use a block must have finished before it is freed.
  // `free` may be called in destructors and host functions: it only queues work or remembers the block.
  DevicePointer allocate(std::uint64_t bytes);
  void free(DevicePointer pointer, std::uint64_t bytes) noexcept;

  // The same in the order of a stream: commands that are queued after allocate_async may use the block, and
  // it is reused when the commands before free_async have finished. Without memory pools, free_async waits
  // for these commands. While a graph is captured, memory of a pool becomes a node of the graph; without
  // pools the graph owns the memory (graph_memory.h), which is a UserError if Kiln does not capture it.
  DevicePointer allocate_async(Queue& queue, std::uint64_t bytes);
  void free_async(Queue& queue, DevicePointer pointer, std::uint64_t bytes);

  void trim();                 // returns kept memory to the driver
  std::int64_t cached_bytes(); // bytes that are kept but not part of any block

  struct Free {
    std::int64_t free_bytes, total_bytes;
  };
  Free memory(); // of the device, over all processes

private:
  struct Block {
    DevicePointer pointer;
    std::uint64_t bytes;
  };
  bool pooled() const { return pool_ != nullptr; }
  DevicePointer try_allocate(std::uint64_t bytes, StreamHandle stream);
  DevicePointer allocate_or_trim(std::uint64_t bytes, StreamHandle stream);
  void release_deferred();

  DeviceState& device_;
  PoolHandle pool_ = nullptr;
  StreamHandle stream_ = nullptr; // the stream on which `allocate` gets blocks from the pool
  BlockCache cache_;
  std::mutex mutex_;
  std::vector<Block> deferred_; // blocks freed inside host functions, which must not call the driver
};

// Page-locked host memory: copies from and to it are asynchronous and run at full speed on every device.
// Aligned to 64 bytes; zero bytes allocate nothing. Must outlive the commands that use it.
class PinnedBuffer {
public:
  PinnedBuffer() = default;
  // UserError if `bytes` is negative or there is not enough memory; TargetError for other failures.
  PinnedBuffer(DeviceState& device, std::int64_t bytes,
               std::source_location here = std::source_location::current());

  void* data() const { return data_.get(); }
  std::int64_t size() const { return data_ ? bytes_ : 0; }

private:
  struct Free {
    DeviceState* device;
    void operator()(void* data) const noexcept;
  };
  std::unique_ptr<void, Free> data_{nullptr, Free{nullptr}};
  std::int64_t bytes_ = 0;
};

// Frees a block that `allocator().allocate` of this device returned. Does nothing if the device cannot be
// used.
void free_device_memory(int device, void* pointer, std::uint64_t bytes) noexcept;

// The index of the device that a pointer's memory belongs to; -1 for memory of the host and pointers that no
// context knows. Calls the driver only if a device's allocator is in use.
int device_of_pointer(const void* pointer);

// Free the kept memory of all devices, and return its size. They affect only devices in use.
void trim_devices();
std::int64_t cached_device_bytes();

} // namespace kiln::cuda
