// Implements the fake driver's entry points for memory: allocations, pools and copies.
#include "entry.h"

#include <algorithm>
#include <cstring>

using namespace fake;
using namespace kiln::cuda;

FAKE_ENTRY cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  ENTER(true);
  auto all = state().setting("memory_bytes");
  std::lock_guard lock(state().mutex);
  *total = static_cast<std::size_t>(all);
  *free = static_cast<std::size_t>(all - state().device_bytes[current()->device]);
  return Result::Success;
}

FAKE_ENTRY cuMemAlloc_v2(DevicePointer* pointer, std::size_t bytes) {
  ENTER(true);
  *pointer = reinterpret_cast<DevicePointer>(allocate(current()->device, bytes, nullptr));
  return *pointer ? Result::Success : Result::OutOfMemory;
}

FAKE_ENTRY cuMemFree_v2(DevicePointer pointer) {
  ENTER(true);
  return release(memory(pointer)) ? Result::Success : Result::InvalidValue;
}

FAKE_ENTRY cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  ENTER(true);
  *pointer = allocate(-1, bytes, nullptr);
  return Result::Success;
}

FAKE_ENTRY cuMemFreeHost(void* pointer) {
  ENTER(true);
  return release(pointer) ? Result::Success : Result::InvalidValue;
}

FAKE_ENTRY cuMemcpyAsync(DevicePointer to, DevicePointer from, std::size_t bytes, StreamHandle stream) {
  ENTER(true);
  if (!in_bounds(memory(to), bytes) || !in_bounds(memory(from), bytes)) return Result::InvalidValue;
  return push(stream, [=] { std::memcpy(memory(to), memory(from), bytes); });
}

FAKE_ENTRY cuMemsetD8Async(DevicePointer to, unsigned char value, std::size_t count, StreamHandle stream) {
  ENTER(true);
  if (!in_bounds(memory(to), count)) return Result::InvalidValue;
  return push(stream, [=] { std::memset(memory(to), value, count); });
}

FAKE_ENTRY cuPointerGetAttribute(void* value, int attribute, DevicePointer pointer) {
  ENTER(true);
  std::lock_guard lock(state().mutex);
  auto next = state().blocks.upper_bound(pointer);
  if (next == state().blocks.begin()) return Result::InvalidValue;
  --next;
  if (pointer >= next->first + next->second.bytes) return Result::InvalidValue;
  int device = next->second.device;
  if (attribute == pointer_attribute_device_pointer) {
    if (device >= 0 && device != current()->device) return Result::InvalidValue; // no access to other devices
    std::memcpy(value, &pointer, sizeof pointer);
  } else if (attribute == pointer_attribute_is_managed) {
    std::memset(value, 0, 1);
  } else if (attribute == pointer_attribute_memory_type) {
    unsigned type = device < 0 ? 1 : memory_type_device;
    std::memcpy(value, &type, sizeof type);
  } else {
    std::memcpy(value, &device, sizeof device);
  }
  return Result::Success;
}

#ifndef FAKE_CUDA_OLD
FAKE_ENTRY cuMemPoolCreate(PoolHandle* handle, const PoolProperties* properties) {
  ENTER(false);
  auto* pool = new Pool;
  pool->device = properties->location_id;
  *handle = reinterpret_cast<PoolHandle>(pool);
  state().count("pools", 1, *handle);
  return Result::Success;
}

FAKE_ENTRY cuMemPoolSetAttribute(PoolHandle, int, void*) {
  ENTER(false);
  return Result::Success;
}

FAKE_ENTRY cuMemPoolGetAttribute(PoolHandle handle, int attribute, void* value) {
  ENTER(false);
  auto& pool = *reinterpret_cast<Pool*>(handle);
  long long bytes = pool.used + (attribute == pool_reserved_mem_current ? pool.cached.load() : 0);
  std::memcpy(value, &bytes, sizeof bytes);
  return Result::Success;
}

FAKE_ENTRY cuMemPoolTrimTo(PoolHandle handle, std::size_t bytes) {
  ENTER(false);
  auto& pool = *reinterpret_cast<Pool*>(handle);
  pool.cached = std::min(pool.cached.load(), static_cast<long long>(bytes));
  return Result::Success;
}

FAKE_ENTRY cuMemAllocFromPoolAsync(DevicePointer* pointer, std::size_t bytes, PoolHandle pool,
                                   StreamHandle stream) {
  ENTER(true);
  const int device = current()->device;
  if (fake::Stream& s = stream_of(stream); s.capturing) {
    void* data = s.captured_memory->allocate(device, bytes);
    *pointer = reinterpret_cast<DevicePointer>(data);
    if (!data) return Result::OutOfMemory;
    return push(stream, [=] { std::memset(data, 0xCD, bytes); }); // a node, after which nothing is zero
  }
  *pointer = reinterpret_cast<DevicePointer>(allocate(device, bytes, reinterpret_cast<Pool*>(pool)));
  return *pointer ? Result::Success : Result::OutOfMemory;
}

FAKE_ENTRY cuMemFreeAsync(DevicePointer pointer, StreamHandle stream) {
  ENTER(true);
  if (fake::Stream& s = stream_of(stream); s.capturing) {
    GraphMemory::Block* block = s.captured_memory->find(memory(pointer));
    if (!block || !block->used) return Result::InvalidValue;
    block->used = false;
    return push(stream, [data = block->data, bytes = block->bytes] { std::memset(data, 0xDD, bytes); });
  }
  return push(stream, [=] { release(memory(pointer)); });
}
#endif
