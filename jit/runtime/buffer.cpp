// The caching allocator behind Buffer.
#include <kiln/jit/runtime/buffer.h>

#include <kiln/dsl/error.h>

#include <bit>
#include <cstdlib>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kiln {
namespace {

constexpr std::uint64_t small_alignment = 64;
constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;
constexpr std::uint64_t large_block = std::uint64_t{1} << 20;
constexpr std::uint64_t largest_request = std::uint64_t{1} << 62;

// Four size classes to a doubling, so at most a fifth of a block is unused; large blocks are whole huge
// pages.
std::uint64_t class_size(std::uint64_t bytes) {
  if (bytes <= small_alignment) return small_alignment;
  std::uint64_t step = std::bit_ceil(bytes) / 8;
  if (step < small_alignment) step = small_alignment;
  if (bytes >= large_block && step < huge_page) step = huge_page;
  return (bytes + step - 1) / step * step;
}

void* map_huge(std::uint64_t bytes) {
  void* raw = mmap(nullptr, bytes + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto start = reinterpret_cast<std::uintptr_t>(raw);
  auto aligned = (start + huge_page - 1) & ~(huge_page - 1);
  if (aligned != start) munmap(raw, aligned - start);
  std::uint64_t tail = start + huge_page - aligned;
  if (tail) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  auto* block = reinterpret_cast<void*>(aligned);
  madvise(block, bytes, MADV_HUGEPAGE); // advice: where it is refused, small pages do
  return block;
}

void* allocate_block(std::uint64_t size) {
  return size >= large_block ? map_huge(size) : std::aligned_alloc(small_alignment, size);
}

void free_block(void* block, std::uint64_t size) {
  if (size >= large_block)
    munmap(block, size);
  else
    std::free(block);
}

class BlockCache {
public:
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
      free_block(block, size);
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
        free_block(block, size);
  }

  std::uint64_t cached() {
    std::lock_guard lock(mutex_);
    return cached_;
  }

private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::vector<void*>> free_;
  std::uint64_t cached_ = 0;
};

// Never destroyed: a Buffer with static storage may die after it would.
BlockCache& cache() {
  static auto* c = new BlockCache;
  return *c;
}

} // namespace

Buffer::Buffer(Device device, std::int64_t bytes, std::source_location here)
    : bytes_(bytes), device_(device) {
  if (bytes < 0)
    throw UserError(here, "Buffer of " + std::to_string(bytes) + " bytes; the size must not be negative");
  if (bytes == 0) return;
  auto wanted = static_cast<std::uint64_t>(bytes);
  if (wanted <= largest_request) {
    std::uint64_t size = class_size(wanted);
    data_ = cache().take(size);
    if (!data_) data_ = allocate_block(size);
    if (!data_) {
      cache().trim();
      data_ = allocate_block(size);
    }
  }
  if (!data_)
    throw UserError(here, "no memory for a Buffer of " + std::to_string(bytes) + " bytes on " +
                              to_string(device) + "; free other buffers or use a smaller one");
}

Buffer::~Buffer() {
  if (data_) cache().give(data_, class_size(static_cast<std::uint64_t>(bytes_)));
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)),
      device_(other.device_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  Buffer taken(std::move(other));
  std::swap(data_, taken.data_);
  std::swap(bytes_, taken.bytes_);
  std::swap(device_, taken.device_);
  return *this;
}

void Buffer::trim() { cache().trim(); }
std::int64_t Buffer::cached_bytes() { return static_cast<std::int64_t>(cache().cached()); }

} // namespace kiln
