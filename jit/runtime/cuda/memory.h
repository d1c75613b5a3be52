// Memory of CUDA devices, and host memory that they reach. Not for users: Buffer stands on it.
//
// Where the device has memory pools, blocks come from a pool of Kiln's own that keeps what is freed
// (cuMemAllocFromPoolAsync); elsewhere from cuMemAlloc through a cache of freed blocks by size class. When
// memory runs out, what is kept is given back and the allocation tried once more.
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

  // At least `bytes` > 0, 256-byte aligned, for any stream; 0 if there is no memory. TargetError for other
  // failures. In destructors and host functions, `free` only ever queues work or remembers the block.
  // Commands that use a block must have finished before it is freed.
  DevicePointer allocate(std::uint64_t bytes);
  void free(DevicePointer pointer, std::uint64_t bytes) noexcept;

  // The same in a stream's order: the block may be used by the stream's commands behind the call, and is
  // handed out again when those before free_async have finished. Without pools free_async waits for them, and
  // while a graph is captured allocate_async is a UserError.
  DevicePointer allocate_async(Queue& queue, std::uint64_t bytes);
  void free_async(Queue& queue, DevicePointer pointer, std::uint64_t bytes);

  void trim();                 // gives what is kept back to the driver
  std::int64_t cached_bytes(); // kept, but in no block

  struct Free {
    std::int64_t free_bytes, total_bytes;
  };
  Free memory(); // of the device, all processes together

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
  StreamHandle stream_ = nullptr; // on which pool blocks of `allocate` are made
  BlockCache cache_;
  std::mutex mutex_;
  std::vector<Block> deferred_; // freed inside host functions, which must not call the driver
};

// Page-locked host memory, from which and into which copies are asynchronous and at full speed on every
// device. 64-byte aligned; zero bytes own nothing. Must outlive the commands that use it.
class PinnedBuffer {
public:
  PinnedBuffer() = default;
  // UserError if `bytes` is negative or there is no such memory, TargetError for other failures.
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

// What `allocator().allocate` of a device gave; does nothing where the device cannot be used.
void free_device_memory(int device, void* pointer, std::uint64_t bytes) noexcept;

// The index of the device that a pointer's memory is of, or -1 for host memory and pointers that no context
// knows. Asks the driver only where a device's allocator is in use.
int device_of_pointer(const void* pointer);

// Frees what all devices keep, and counts it. They touch only devices in use.
void trim_devices();
std::int64_t cached_device_bytes();

} // namespace kiln::cuda
