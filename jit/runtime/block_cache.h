// Keeps freed blocks of memory, sorted by size class, so that later allocations can reuse them. Internal.
#pragma once

#include <bit>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace kiln {

// Rounds sizes up to a size class. There are four classes per doubling, so at most a fifth of a block is
// unused. No class is smaller than `smallest`, and classes of `large` bytes or more are multiples of `page`.
// All three are powers of two.
struct SizeClasses {
  std::uint64_t smallest, large, page;

  std::uint64_t operator()(std::uint64_t bytes) const {
    if (bytes <= smallest) return smallest;
    std::uint64_t step = std::bit_ceil(bytes) / 8;
    if (step < smallest) step = smallest;
    if (bytes >= large && step < page) step = page;
    return (bytes + step - 1) / step * step;
  }
};

// Caches free blocks and returns them to the system through `Free`. Thread-safe.
class BlockCache {
public:
  using Free = void (*)(void* block, std::uint64_t size, void* context);
  BlockCache(Free free, void* context) : free_block_(free), context_(context) {}

  // A cached block of this size class, or null if there is none.
  void* take(std::uint64_t size) {
    std::lock_guard lock(mutex_);
    auto found = free_.find(size);
    if (found == free_.end() || found->second.empty()) return nullptr;
    void* block = found->second.back();
    found->second.pop_back();
    cached_ -= size;
    return block;
  }

  // Keeps a block. Destructors call this, so it does not throw: if the list cannot grow, the block is freed.
  void give(void* block, std::uint64_t size) noexcept {
    try {
      std::lock_guard lock(mutex_);
      free_[size].push_back(block);
      cached_ += size;
    } catch (...) {
      free_block_(block, size, context_);
    }
  }

  // Frees all cached blocks.
  void trim() {
    std::unordered_map<std::uint64_t, std::vector<void*>> blocks;
    {
      std::lock_guard lock(mutex_);
      blocks.swap(free_);
      cached_ = 0;
    }
    for (auto& [size, list] : blocks)
      for (void* block : list)
        free_block_(block, size, context_);
  }

  // Bytes in cached blocks.
  std::uint64_t cached() {
    std::lock_guard lock(mutex_);
    return cached_;
  }

private:
  Free free_block_;
  void* context_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::vector<void*>> free_;
  std::uint64_t cached_ = 0;
};

} // namespace kiln
