// Allocates device memory at reproducible addresses, and finds the region that an address is in.
#include "memory.h"

#include <cstdio>
#include <cstring>
#include <kiln/dsl/error.h>
#include <new>
#include <sys/mman.h>
#include <utility>

namespace kiln::emulator {
std::string hexadecimal(std::uint64_t v) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(v));
  return text;
}

namespace {

constexpr std::uint64_t guard = 1024; // unused bytes on both sides of an allocation
constexpr std::uint64_t arena_bytes = std::uint64_t(64)
                                      << 30; // reserved addresses; pages get memory when they are used
constexpr std::uint64_t most_of_arena = std::uint64_t(1)
                                        << 30; // for one allocation; larger ones use the host's allocator
constexpr std::uint64_t shown_bytes = std::uint64_t(1)
                                      << 40; // distance of allocations in the addresses that reports show
constexpr std::uint64_t remembered = std::uint64_t(256) << 20; // bytes of freed memory that are kept unused

// Returns the memory of arena addresses that are not used again.
void give_back(std::uint64_t base, std::uint64_t bytes) {
  constexpr std::uint64_t page = 65536; // or less
  const std::uint64_t from = (base + page - 1) / page * page, to = (base + bytes) / page * page;
  if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
}

std::string described(const Region& r) {
  return (r.kind == Region::Kind::Constant || r.kind == Region::Kind::Global
              ? (r.name.empty() ? "an allocation" : r.name)
              : r.name) +
         " (" + std::to_string(r.bytes) + " bytes at " + hexadecimal(r.shown) + ")";
}

} // namespace

Allocations::Allocations() {
  void* at =
      mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return; // all allocations use the host's allocator then
  arena_ = reinterpret_cast<std::uint64_t>(at);
  arena_next_ = arena_ + arena_bytes / 2;
}

Allocations::~Allocations() {
  if (arena_) munmap(reinterpret_cast<void*>(arena_), arena_bytes);
}

std::uint8_t* Allocations::from_arena(std::uint64_t bytes) {
  if (!arena_ || bytes > most_of_arena || bytes > arena_ + arena_bytes - arena_next_) return nullptr;
  return reinterpret_cast<std::uint8_t*>(std::exchange(arena_next_, arena_next_ + bytes));
}

std::uint64_t Allocations::next_shown(std::uint64_t base) {
  constexpr std::uint64_t most = std::uint64_t(1)
                                 << 15; // then they repeat, because the windows start at 1 << 56
  return (allocated_++ % most + 1) * shown_bytes + base % 16;
}

std::uint64_t Allocations::shown(std::uint64_t address) const {
  const auto after = regions_.upper_bound(address);
  const Region* closest = nullptr;
  std::uint64_t distance = shown_bytes / 2;
  const bool in_arena = address - arena_ < arena_bytes;
  const auto beside = [&](const Region& r) { return (r.base - arena_ < arena_bytes) == in_arena; };
  if (after != regions_.end() && after->first - address < distance && beside(*after->second)) {
    closest = after->second.get();
    distance = after->first - address;
  }
  if (after != regions_.begin()) {
    const Region& before = *std::prev(after)->second;
    const std::uint64_t offset = address - before.base;
    if (offset < before.bytes || (offset - before.bytes < distance && beside(before))) closest = &before;
  }
  return closest ? closest->shown + (address - closest->base) : address;
}

Region& Allocations::allocate(std::uint64_t bytes, std::string name, bool shadowed) {
  if (bytes > std::uint64_t(1) << 40)
    throw UserError("an allocation of " + std::to_string(bytes) +
                    " bytes on the emulated GPU, which allows at most 1 TiB");
  auto r = std::make_unique<Region>();
  std::uint64_t raw = 0;
  try {
    const std::uint64_t all = bytes + 2 * guard + 1024;
    raw = reinterpret_cast<std::uint64_t>(from_arena(all));
    if (!raw) r->storage.reset(new std::uint8_t[all]);
    if (!raw) raw = reinterpret_cast<std::uint64_t>(r->storage.get());
    if (shadowed) r->shadow.assign(bytes, 0);
  } catch (const std::bad_alloc&) {
    throw UserError("an allocation of " + std::to_string(bytes) +
                    " bytes on the emulated GPU: the host has no memory for it");
  }
  r->base = (raw + guard + 1023) / 1024 * 1024;
  r->data = reinterpret_cast<std::uint8_t*>(r->base);
  r->bytes = bytes;
  r->name = std::move(name);
  r->owned = true;
  r->shown = next_shown(r->base);
  const std::uint64_t base = r->base;
  regions_[base] = std::move(r);
  last_ = nullptr;
  return *regions_[base];
}

void Allocations::free(std::uint64_t address) {
  auto at = regions_.find(address);
  if (at == regions_.end() || !at->second->owned)
    throw UserError("free of " + hexadecimal(address) + ": no allocation of the emulated GPU starts there");
  if (!at->second->alive) throw UserError("free of " + hexadecimal(address) + ": it was freed before");
  at->second->alive = false;
  last_ = nullptr;
  freed_.push_back(address);
  freed_bytes_ += at->second->bytes;
  while (freed_bytes_ > remembered) {
    auto oldest = regions_.find(freed_.front());
    freed_bytes_ -= oldest->second->bytes;
    if (const Region& r = *oldest->second; !r.storage) give_back(r.base, r.bytes);
    regions_.erase(oldest);
    freed_.erase(freed_.begin());
  }
}

Region& Allocations::share(void* host, std::uint64_t bytes, std::string name, bool writable) {
  const std::uint64_t base = reinterpret_cast<std::uint64_t>(host);
  auto after = regions_.lower_bound(base);
  const bool hits_next = after != regions_.end() && bytes && after->first < base + bytes;
  const bool hits_previous =
      after != regions_.begin() && std::prev(after)->first + std::prev(after)->second->bytes > base;
  if ((hits_next || hits_previous) && bytes) {
    const Region& other = hits_next ? *after->second : *std::prev(after)->second;
    throw UserError("sharing " + std::to_string(bytes) + " bytes at " + hexadecimal(base) +
                    " with the emulated GPU: they overlap " + described(other));
  }
  auto r = std::make_unique<Region>();
  r->base = base;
  r->data = static_cast<std::uint8_t*>(host);
  r->bytes = bytes;
  r->name = std::move(name);
  r->writable = writable;
  r->shown = next_shown(base);
  last_ = nullptr;
  auto& slot = regions_[base];
  slot = std::move(r);
  return *slot;
}

void Allocations::forget(std::uint64_t address) {
  auto at = regions_.find(address);
  if (at == regions_.end() || at->second->owned)
    throw UserError("no memory shared with the emulated GPU starts at " + hexadecimal(address));
  regions_.erase(at);
  last_ = nullptr;
}

Region* Allocations::find(std::uint64_t address, std::uint64_t bytes) {
  auto at = regions_.upper_bound(address);
  if (at == regions_.begin()) return nullptr;
  Region* r = std::prev(at)->second.get();
  if (address - r->base >= r->bytes || bytes > r->bytes - (address - r->base)) return nullptr;
  if (r->alive) last_ = r;
  return r;
}

Region* Allocations::nearest(std::uint64_t address) {
  auto at = regions_.upper_bound(address);
  if (at == regions_.begin()) return nullptr;
  Region* r = std::prev(at)->second.get();
  return address - r->base < r->bytes + guard ? r : nullptr;
}

std::string Allocations::describe(std::uint64_t address, std::uint64_t bytes) {
  if (Region* r = nearest(address)) {
    const std::uint64_t offset = address - r->base;
    if (offset < r->bytes)
      return offset + bytes <= r->bytes ? "byte " + std::to_string(offset) + " of " + described(*r)
                                        : std::to_string(offset + bytes - r->bytes) +
                                              " bytes of them past the end of " + described(*r);
    return std::to_string(offset - r->bytes) + " bytes past the end of " + described(*r);
  }
  auto after = regions_.upper_bound(address);
  if (after != regions_.end() && after->first - address <= guard)
    return std::to_string(after->first - address) + " bytes before " + described(*after->second);
  return address < 4096 ? "a null pointer" : "in no allocation";
}

} // namespace kiln::emulator
