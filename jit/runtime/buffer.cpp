// Implements Buffer with a caching allocator.
#include <kiln/jit/runtime/buffer.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/runtime/block_cache.h>
#include <kiln/jit/runtime/cuda/memory.h>
#include <kiln/jit/runtime/emulated/device_state.h>

#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <utility>

namespace kiln {
namespace {

constexpr std::uint64_t small_alignment = 64;
constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;
constexpr std::uint64_t large_block = std::uint64_t{1} << 20;
constexpr std::uint64_t largest_request = std::uint64_t{1} << 62;
constexpr SizeClasses class_size{small_alignment, large_block,
                                 huge_page}; // large blocks consist of whole huge pages

void* map_huge(std::uint64_t bytes) {
  void* raw = mmap(nullptr, bytes + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto start = reinterpret_cast<std::uintptr_t>(raw);
  auto aligned = (start + huge_page - 1) & ~(huge_page - 1);
  if (aligned != start) munmap(raw, aligned - start);
  std::uint64_t tail = start + huge_page - aligned;
  if (tail) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  auto* block = reinterpret_cast<void*>(aligned);
  madvise(block, bytes, MADV_HUGEPAGE); // this is advice: if the system refuses, small pages are used
  return block;
}

void* allocate_block(std::uint64_t size) {
  return size >= large_block ? map_huge(size) : std::aligned_alloc(small_alignment, size);
}

void free_block(void* block, std::uint64_t size, void*) {
  if (size >= large_block)
    munmap(block, size);
  else
    std::free(block);
}

// Never destroyed, because a Buffer of static storage duration may be destroyed later.
BlockCache& cache() {
  static auto* c = new BlockCache(free_block, nullptr);
  return *c;
}

} // namespace

Buffer::Buffer(Device device, std::int64_t bytes, std::source_location here)
    : bytes_(bytes), device_(device) {
  if (bytes < 0)
    throw UserError(here, "Buffer of " + std::to_string(bytes) + " bytes; the size must not be negative");
  if (bytes == 0) return;
  auto wanted = static_cast<std::uint64_t>(bytes);
  std::string room;
  if (device.kind() == DeviceKind::Cuda) {
    cuda::Allocator& allocator = cuda::DeviceState::get(device.index()).allocator();
    data_ = reinterpret_cast<void*>(allocator.allocate(wanted));
    if (data_) return;
    auto memory = allocator.memory();
    room =
        ", which has " + std::to_string(memory.free_bytes) + " free of " + std::to_string(memory.total_bytes);
  } else if (device.is_emulated()) {
    data_ = emulated::DeviceState::get(device.index()).allocate(wanted);
    if (data_) return;
  } else if (wanted <= largest_request) {
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
                              to_string(device) + room + "; free other buffers or use a smaller one");
}

Buffer::~Buffer() {
  if (!data_) return;
  auto bytes = static_cast<std::uint64_t>(bytes_);
  if (device_.kind() == DeviceKind::Cuda)
    cuda::free_device_memory(device_.index(), data_, bytes);
  else if (device_.is_emulated())
    emulated::DeviceState::get(device_.index()).free(data_);
  else
    cache().give(data_, class_size(bytes));
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

void Buffer::trim() {
  cache().trim();
  cuda::trim_devices();
}

std::int64_t Buffer::cached_bytes() {
  return static_cast<std::int64_t>(cache().cached()) + cuda::cached_device_bytes();
}

} // namespace kiln
