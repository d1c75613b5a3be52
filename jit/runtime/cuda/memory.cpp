// Implements the allocators of CUDA devices, and pinned memory.
#include <kiln/jit/runtime/cuda/memory.h>

#include <kiln/jit/runtime/cuda/current.h>
#include <kiln/jit/runtime/cuda/graph_memory.h>
#include <kiln/jit/runtime/cuda/queue.h>
#include <kiln/jit/runtime/cuda/reach.h>

namespace kiln::cuda {

namespace {

// cuMemAlloc aligns to 256 bytes and maps pages of 2 MiB.
constexpr SizeClasses size_classes{256, std::uint64_t{1} << 20, std::uint64_t{2} << 20};
constexpr std::uint64_t largest_request = std::uint64_t{1} << 62;

std::string bytes_call(const char* call, std::uint64_t bytes) {
  return std::string(call) + " of " + std::to_string(bytes) + " bytes";
}

// All allocators, for trim_devices().
struct Allocators {
  std::mutex mutex;
  std::vector<Allocator*> list;
  static Allocators& get() {
    static auto* all = new Allocators;
    return *all;
  }
};

} // namespace

Allocator::Allocator(DeviceState& device)
    : device_(device),
      cache_(
          [](void* block, std::uint64_t, void* context) {
            auto& d = *static_cast<DeviceState*>(context);
            clean_up(d, [&] { d.driver().cuMemFree(reinterpret_cast<DevicePointer>(block)); });
          },
          &device) {
  const Driver& driver = device.driver();
  if (device.properties().memory_pools && driver.cuMemPoolCreate && driver.cuMemPoolSetAttribute &&
      driver.cuMemPoolGetAttribute && driver.cuMemPoolTrimTo && driver.cuMemAllocFromPoolAsync &&
      driver.cuMemFreeAsync) {
    PoolProperties properties;
    properties.location_id = device.index();
    // If the driver cannot create a pool or a stream for it, as on virtual GPUs, the cache of blocks is used.
    if (driver.cuMemPoolCreate(&pool_, &properties) != Result::Success) pool_ = nullptr;
    std::uint64_t keep_all = ~std::uint64_t{0};
    if (pool_)
      device.check(driver.cuMemPoolSetAttribute(pool_, pool_release_threshold, &keep_all),
                   "cuMemPoolSetAttribute");
    if (pool_) device.check(driver.cuStreamCreate(&stream_, stream_non_blocking), "cuStreamCreate");
  }
  Allocators& all = Allocators::get();
  std::lock_guard lock(all.mutex);
  all.list.push_back(this);
}

Allocator::~Allocator() {
  Allocators& all = Allocators::get();
  std::lock_guard lock(all.mutex);
  std::erase(all.list, this);
}

DevicePointer Allocator::try_allocate(std::uint64_t bytes, StreamHandle stream) {
  DevicePointer pointer = 0;
  Result result;
  if (pooled()) {
    result = device_.driver().cuMemAllocFromPoolAsync(&pointer, bytes, pool_, stream);
  } else {
    bytes = size_classes(bytes);
    if (void* block = cache_.take(bytes)) return reinterpret_cast<DevicePointer>(block);
    result = device_.driver().cuMemAlloc(&pointer, bytes);
  }
  if (result == Result::OutOfMemory) return 0;
  if (result != Result::Success)
    device_.check(result, bytes_call(pooled() ? "cuMemAllocFromPoolAsync" : "cuMemAlloc", bytes));
  return pointer;
}

DevicePointer Allocator::allocate_or_trim(std::uint64_t bytes, StreamHandle stream) {
  if (bytes > largest_request) return 0;
  release_deferred();
  if (DevicePointer pointer = try_allocate(bytes, stream)) return pointer;
  trim();
  return try_allocate(bytes, stream);
}

DevicePointer Allocator::allocate(std::uint64_t bytes) {
  Current current(device_);
  DevicePointer pointer = allocate_or_trim(bytes, stream_);
  // Other streams may use the block only after the allocation has happened in the order of stream_.
  if (pointer && pooled())
    device_.check(device_.driver().cuStreamSynchronize(stream_), "cuStreamSynchronize");
  return pointer;
}

void Allocator::free(DevicePointer pointer, std::uint64_t bytes) noexcept {
  forget_reachable();
  if (InHostFunction::here()) {
    try {
      std::lock_guard lock(mutex_);
      deferred_.push_back({pointer, bytes});
    } catch (...) { // no memory to remember the block, so it is lost
    }
    return;
  }
  if (!pooled()) return cache_.give(reinterpret_cast<void*>(pointer), size_classes(bytes));
  clean_up(device_, [&] { device_.driver().cuMemFreeAsync(pointer, stream_); });
}

void Allocator::release_deferred() {
  std::vector<Block> blocks;
  {
    std::lock_guard lock(mutex_);
    blocks.swap(deferred_);
  }
  for (const Block& block : blocks)
    free(block.pointer, block.bytes);
}

DevicePointer Allocator::allocate_async(Queue& queue, std::uint64_t bytes) {
  Current current(device_);
  if (!pooled()) {
    if (GraphMemory* memory = queue.graph_memory()) return memory->allocate(bytes);
    if (queue.capturing())
      throw UserError("a temporary of " + std::to_string(bytes) + " bytes on a stream of " + device_.name() +
                      ", whose driver has no memory pools, while a graph is captured; capture it with "
                      "cuda::GraphCapture from this stream, so that the graph owns the memory");
  }
  return allocate_or_trim(bytes, queue.handle());
}

void Allocator::free_async(Queue& queue, DevicePointer pointer, std::uint64_t bytes) {
  forget_reachable();
  Current current(device_);
  if (pooled())
    return device_.check(device_.driver().cuMemFreeAsync(pointer, queue.handle()), "cuMemFreeAsync",
                         &queue.history());
  if (GraphMemory* memory = queue.graph_memory(); memory && memory->free(pointer)) return;
  device_.check(device_.driver().cuStreamSynchronize(queue.handle()), "cuStreamSynchronize",
                &queue.history());
  free(pointer, bytes);
}

void Allocator::trim() {
  if (!device_.usable()) return;
  Current current(device_);
  release_deferred();
  cache_.trim();
  if (!pooled()) return;
  // Memory is only returned to the driver when pending frees have happened.
  device_.check(device_.driver().cuStreamSynchronize(stream_), "cuStreamSynchronize");
  device_.check(device_.driver().cuMemPoolTrimTo(pool_, 0), "cuMemPoolTrimTo");
}

std::int64_t Allocator::cached_bytes() {
  if (!pooled() || !device_.usable()) return static_cast<std::int64_t>(cache_.cached());
  Current current(device_);
  std::uint64_t reserved = 0, used = 0;
  const Driver& driver = device_.driver();
  device_.check(driver.cuMemPoolGetAttribute(pool_, pool_reserved_mem_current, &reserved),
                "cuMemPoolGetAttribute");
  device_.check(driver.cuMemPoolGetAttribute(pool_, pool_used_mem_current, &used), "cuMemPoolGetAttribute");
  return static_cast<std::int64_t>(reserved > used ? reserved - used : 0);
}

Allocator::Free Allocator::memory() {
  Current current(device_);
  std::size_t free = 0, total = 0;
  device_.check(device_.driver().cuMemGetInfo(&free, &total), "cuMemGetInfo");
  return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
}

void free_device_memory(int device, void* pointer, std::uint64_t bytes) noexcept {
  try {
    DeviceState::get(device).allocator().free(reinterpret_cast<DevicePointer>(pointer), bytes);
  } catch (...) { // a forked child: the memory belongs to the parent
  }
}

void trim_devices() {
  Allocators& all = Allocators::get();
  std::lock_guard lock(all.mutex);
  for (Allocator* allocator : all.list)
    allocator->trim();
}

std::int64_t cached_device_bytes() {
  Allocators& all = Allocators::get();
  std::lock_guard lock(all.mutex);
  std::int64_t bytes = 0;
  for (Allocator* allocator : all.list)
    bytes += allocator->cached_bytes();
  return bytes;
}

int device_of_pointer(const void* pointer) {
  Allocators& all = Allocators::get();
  std::lock_guard lock(all.mutex);
  for (Allocator* allocator : all.list) { // any context gives the same answer
    DeviceState& device = allocator->device();
    if (!device.usable()) continue;
    Current current(device);
    const Driver& driver = device.driver();
    auto address = reinterpret_cast<DevicePointer>(pointer);
    unsigned type = 0;
    int index = -1;
    bool managed = false; // managed memory belongs to all devices
    if (driver.cuPointerGetAttribute(&managed, pointer_attribute_is_managed, address) == Result::Success &&
        managed)
      return -1;
    if (driver.cuPointerGetAttribute(&type, pointer_attribute_memory_type, address) != Result::Success ||
        type != memory_type_device ||
        driver.cuPointerGetAttribute(&index, pointer_attribute_device_ordinal, address) != Result::Success)
      return -1;
    return index;
  }
  return -1;
}

// --- Pinned host memory ------------------------------------------------------------------------------------

PinnedBuffer::PinnedBuffer(DeviceState& device, std::int64_t bytes, std::source_location here)
    : bytes_(bytes) {
  if (bytes < 0)
    throw UserError(here,
                    "PinnedBuffer of " + std::to_string(bytes) + " bytes; the size must not be negative");
  if (bytes == 0) return;
  Current current(device);
  void* data = nullptr;
  Result result = device.driver().cuMemHostAlloc(&data, static_cast<std::size_t>(bytes), host_alloc_portable);
  if (result == Result::OutOfMemory)
    throw UserError(here, "no memory for a PinnedBuffer of " + std::to_string(bytes) +
                              " bytes; use a smaller one, or pageable memory");
  if (result != Result::Success)
    device.check(result, bytes_call("cuMemHostAlloc", static_cast<std::uint64_t>(bytes)));
  data_ = {data, Free{&device}};
}

void PinnedBuffer::Free::operator()(void* data) const noexcept {
  forget_reachable();
  clean_up(*device, [&] { device->driver().cuMemFreeHost(data); });
}

} // namespace kiln::cuda
