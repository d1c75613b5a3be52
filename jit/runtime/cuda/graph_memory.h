// Defines GraphMemory, the memory for intermediate results of a captured graph on devices without memory
// pools. Internal.
//
// With memory pools, an allocation during a capture becomes a node of the graph, and the driver keeps the
// memory. Without them the graph owns blocks, whose addresses its commands contain. A block that is freed
// during the capture serves later allocations of the same capture: the commands that one stream contributes
// to a graph run in order.
#pragma once

#include <kiln/jit/runtime/cuda/event_handle.h>
#include <kiln/jit/runtime/cuda/memory.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace kiln::cuda {

// Thread-safe except for destruction.
class GraphMemory {
public:
  explicit GraphMemory(Allocator& allocator) : allocator_(allocator) {}
  ~GraphMemory(); // waits for the last launch
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  // Returns 0 if there is no memory.
  DevicePointer allocate(std::uint64_t bytes);
  // Returns false if the block was not allocated here.
  bool free(DevicePointer pointer);
  bool empty() const { return blocks_.empty(); }
  // Records that the graph was launched on this stream. Launches of one graph run one after the other, so the
  // last one ends last.
  void launched(Queue& queue);

private:
  struct Block {
    DevicePointer pointer;
    std::uint64_t bytes;
    bool used;
  };
  Allocator& allocator_;
  std::mutex mutex_;
  std::vector<Block> blocks_;
  std::optional<EventHandleOwner> last_launch_;
};

} // namespace kiln::cuda
