// Keeps the blocks of a captured graph.
#include <kiln/jit/runtime/cuda/graph_memory.h>

#include <kiln/jit/runtime/cuda/current.h>
#include <kiln/jit/runtime/cuda/queue.h>

namespace kiln::cuda {

GraphMemory::~GraphMemory() {
  if (last_launch_) clean_up(allocator_.device(), [&] { last_launch_->synchronize(); });
  for (const Block& block : blocks_)
    allocator_.free(block.pointer, block.bytes);
}

DevicePointer GraphMemory::allocate(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  Block* best = nullptr; // the smallest free block that is large enough
  for (Block& block : blocks_)
    if (!block.used && block.bytes >= bytes && (!best || block.bytes < best->bytes)) best = &block;
  if (best) {
    best->used = true;
    return best->pointer;
  }
  blocks_.reserve(blocks_.size() + 1); // a block is not lost if the list cannot grow
  const DevicePointer pointer = allocator_.allocate(bytes);
  if (pointer) blocks_.push_back({pointer, bytes, true});
  return pointer;
}

bool GraphMemory::free(DevicePointer pointer) {
  const std::lock_guard lock(mutex_);
  for (Block& block : blocks_)
    if (block.pointer == pointer) {
      block.used = false;
      return true;
    }
  return false;
}

void GraphMemory::launched(Queue& queue) {
  const std::lock_guard lock(mutex_);
  if (!last_launch_) last_launch_.emplace(queue.device());
  queue.record(*last_launch_);
}

} // namespace kiln::cuda
