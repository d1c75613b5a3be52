// Freed blocks of memory by size class, to be handed out again. Not for users.
#pragma once

#include <bit>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace kiln {

// Four size classes to a doubling, so at most a fifth of a block is unused. From `large` on they are
// multiples of `page`; none is less than `smallest`. All are powers of two.
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

// Thread-safe.
class BlockCache {
public:
  using Free = void (*)(void* block, std::uint64_t size, void* context);
  BlockCache(Free free, void* context) : free_block_(free), context_(context) {}

  // Null if there is none of this size.
  void* take(std::uint64_t size) {
    std::lock_guard lock(mutex_);
    auto found = free_.find(size);
    if (found == free_.end() || found->second.empty()) return nullptr;
    void* block = found->second.back();
    found->second.pop_back();
    cached_ -= size;
    return block;
  }

  // Called by destructors: where the list cannot grow, the block goes back to the system.
  void give(void* block, std::uint64_t size) noexcept {
    try {
      std::lock_guard lock(mutex_);
      free_[size].push_back(block);
      cached_ += size;
    } catch (...) {
      free_block_(block, size, context_);
    }
  }

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
