// Implements the fake driver's memory: host memory between guard bytes.
#include "fake_state.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace fake {

namespace {

constexpr std::size_t guard = 256, page = 4096;
constexpr unsigned char mark = 0xA5;

std::size_t rounded(std::size_t bytes) { return (bytes + guard - 1) / guard * guard; }

bool damaged(const Block& block) {
  auto* before = static_cast<const unsigned char*>(block.base);
  const unsigned char* after = before + guard + block.bytes;
  std::size_t tail = rounded(block.bytes) - block.bytes + guard;
  for (std::size_t i = 0; i < guard; ++i)
    if (before[i] != mark) return true;
  for (std::size_t i = 0; i < tail; ++i)
    if (after[i] != mark) return true;
  return false;
}

const std::pair<const std::uintptr_t, Block>* find_block(State& state, std::uintptr_t address) {
  auto next = state.blocks.upper_bound(address);
  if (next == state.blocks.begin()) return nullptr;
  --next;
  return address < next->first + next->second.bytes ? &*next : nullptr;
}

} // namespace

GraphMemory::~GraphMemory() {
  for (const Block& block : blocks)
    release(block.data);
}

void* GraphMemory::allocate(int device, std::size_t bytes) {
  for (Block& block : blocks)
    if (!block.used && block.bytes == bytes) {
      block.used = true;
      return block.data;
    }
  void* data = fake::allocate(device, bytes, nullptr);
  if (data) blocks.push_back({data, bytes, true});
  return data;
}

GraphMemory::Block* GraphMemory::find(const void* data) {
  for (Block& block : blocks)
    if (block.data == data) return &block;
  return nullptr;
}

bool GraphMemory::all_freed() const {
  return std::none_of(blocks.begin(), blocks.end(), [](const Block& b) { return b.used; });
}

void* allocate(int device, std::size_t bytes, Pool* pool) {
  State& state = State::get();
  std::lock_guard lock(state.mutex);
  auto size = static_cast<long long>(bytes);
  if (device >= 0) {
    if (pool && pool->cached >= size)
      pool->cached -= size; // freed memory is reused
    else if (size < 0 || state.device_bytes[device] + (pool ? pool->cached.load() : 0) >
                             state.settings.at("memory_bytes") - size)
      return nullptr;
    state.device_bytes[device] += size;
  }
  if (pool) pool->used += size;
  // Uses separate pages, so that no page belongs to both the device and the host.
  std::size_t whole = (rounded(bytes) + 2 * guard + page - 1) / page * page;
  void* base = std::aligned_alloc(page, whole);
  std::memset(base, mark, whole);
  auto* data = static_cast<unsigned char*>(base) + guard;
  std::memset(data, 0xCD, bytes); // no code may rely on zeros
  state.blocks[reinterpret_cast<std::uintptr_t>(data)] = {bytes, device, pool, base};
  ++state.live[device >= 0 ? "memory" : "pinned"];
  return data;
}

bool release(void* pointer) {
  State& state = State::get();
  std::lock_guard lock(state.mutex);
  auto found = state.blocks.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == state.blocks.end()) return false;
  Block block = found->second;
  state.blocks.erase(found);
  if (damaged(block)) ++state.damaged;
  auto size = static_cast<long long>(block.bytes);
  if (block.device >= 0) state.device_bytes[block.device] -= size;
  if (block.pool) block.pool->used -= size, block.pool->cached += size;
  --state.live[block.device >= 0 ? "memory" : "pinned"];
  std::free(block.base);
  return true;
}

bool in_bounds(const void* pointer, std::size_t bytes) {
  State& state = State::get();
  std::lock_guard lock(state.mutex);
  auto address = reinterpret_cast<std::uintptr_t>(pointer);
  auto* block = find_block(state, address);
  return !block || bytes <= block->first + block->second.bytes - address;
}

long long damaged_guards() {
  State& state = State::get();
  std::lock_guard lock(state.mutex);
  long long count = state.damaged;
  for (const auto& [address, block] : state.blocks)
    count += damaged(block);
  return count;
}

} // namespace fake
