// Finds the compiled variants of a kernel by device, config and layout classes. Internal.
//
// It is an open-addressing hash table of pointers. Readers take no lock: a slot is null until its variant is
// complete, and does not change afterwards. A table that becomes too full is replaced by one of twice the
// size; the old one is kept, because a reader may still use it.
#pragma once

#include <kiln/dsl/config.h>
#include <kiln/jit/runtime/device.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace kiln {
struct CompiledKernel;
}

namespace kiln::detail {

class KernelCore;

struct VariantKey {
  const Config& config;
  std::uint64_t layouts; // two bits per view
  Device device;

  std::uint64_t hash() const {
    std::uint64_t h = layouts ^ (std::uint64_t(device.kind()) << 62) ^ std::uint64_t(device.index()) << 40;
    for (const Binding& b : config)
      h = mix(h ^ reinterpret_cast<std::uintptr_t>(b.name)) ^ static_cast<std::uint64_t>(b.value);
    return mix(h);
  }
  bool operator==(const VariantKey& other) const {
    return layouts == other.layouts && device == other.device && config == other.config;
  }

private:
  static std::uint64_t mix(std::uint64_t h) {
    h *= 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
  }
};

struct Variant {
  KernelCore* core;
  std::shared_ptr<const CompiledKernel> code;
  Config config;
  std::uint64_t layouts;
  Device device;

  VariantKey key() const { return {config, layouts, device}; }
};

class VariantTable {
public:
  VariantTable() : table_(new Table(8)) { tables_.emplace_back(table_.load()); }

  // The variant with this key, or null. Takes no lock and may be called at any time.
  const Variant* find(const VariantKey& key) const {
    const Table& t = *table_.load(std::memory_order_acquire);
    for (std::uint64_t i = key.hash();; ++i) {
      const Variant* v = t.slots[i & t.mask].load(std::memory_order_acquire);
      if (!v || v->key() == key) return v;
    }
  }

  // Adds a variant. Only one thread at a time may call this.
  const Variant& insert(std::unique_ptr<const Variant> variant) {
    if (2 * (variants_.size() + 1) > table_.load()->mask + 1) grow();
    variants_.push_back(std::move(variant));
    put(*table_.load(), variants_.back().get());
    return *variants_.back();
  }
  const std::vector<std::unique_ptr<const Variant>>& all() const { return variants_; }

private:
  struct Table {
    explicit Table(std::uint64_t size)
        : mask(size - 1), slots(std::make_unique<std::atomic<const Variant*>[]>(size)) {}
    std::uint64_t mask;
    std::unique_ptr<std::atomic<const Variant*>[]> slots;
  };

  static void put(Table& t, const Variant* v) {
    std::uint64_t i = v->key().hash();
    while (t.slots[i & t.mask].load(std::memory_order_relaxed))
      ++i;
    t.slots[i & t.mask].store(v, std::memory_order_release);
  }
  void grow() {
    auto larger = std::make_unique<Table>(2 * (table_.load()->mask + 1));
    for (const auto& v : variants_)
      put(*larger, v.get());
    table_.store(larger.get(), std::memory_order_release);
    tables_.push_back(std::move(larger));
  }

  std::atomic<Table*> table_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<const Variant>> variants_;
};

} // namespace kiln::detail
