// The map of allocations.
#include "memory.h"

#include <cstdio>
#include <cstring>
#include <kiln/dsl/error.h>
#include <new>

namespace kiln::emulator {
std::string hexadecimal(std::uint64_t v) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(v));
  return text;
}

namespace {

constexpr std::uint64_t guard = 1024;                          // unused bytes on both sides of an allocation
constexpr std::uint64_t remembered = std::uint64_t(256) << 20; // bytes of freed memory that stay unused

std::string called(const Region& r) {
  return (r.kind == Region::Kind::Constant || r.kind == Region::Kind::Global
              ? (r.name.empty() ? "an allocation" : r.name)
              : r.name) +
         " (" + std::to_string(r.bytes) + " bytes at " + hexadecimal(r.base) + ")";
}

} // namespace

Region& Allocations::allocate(std::uint64_t bytes, std::string name, bool shadowed) {
  if (bytes > std::uint64_t(1) << 40)
    throw UserError("an allocation of " + std::to_string(bytes) +
                    " bytes on the emulated GPU: it has less than 1 TiB");
  auto r = std::make_unique<Region>();
  try {
    r->storage.reset(new std::uint8_t[bytes + 2 * guard + 1024]);
    if (shadowed) r->shadow.assign(bytes, 0);
  } catch (const std::bad_alloc&) {
    throw UserError("an allocation of " + std::to_string(bytes) +
                    " bytes on the emulated GPU: the host has no memory for it");
  }
  const std::uint64_t raw = reinterpret_cast<std::uint64_t>(r->storage.get());
  r->base = (raw + guard + 1023) / 1024 * 1024;
  r->data = reinterpret_cast<std::uint8_t*>(r->base);
  r->bytes = bytes;
  r->name = std::move(name);
  r->owned = true;
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
                    " with the emulated GPU: they overlap " + called(other));
  }
  auto r = std::make_unique<Region>();
  r->base = base;
  r->data = static_cast<std::uint8_t*>(host);
  r->bytes = bytes;
  r->name = std::move(name);
  r->writable = writable;
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
      return offset + bytes <= r->bytes
                 ? "byte " + std::to_string(offset) + " of " + called(*r)
                 : std::to_string(offset + bytes - r->bytes) + " bytes of them past the end of " + called(*r);
    return std::to_string(offset - r->bytes) + " bytes past the end of " + called(*r);
  }
  auto after = regions_.upper_bound(address);
  if (after != regions_.end() && after->first - address <= guard)
    return std::to_string(after->first - address) + " bytes before " + called(*after->second);
  return address < 4096 ? "a null pointer" : "in no allocation";
}

} // namespace kiln::emulator
