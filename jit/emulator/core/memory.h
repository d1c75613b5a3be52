// What memory exists, and where an address leads.
//
// Global and constant addresses are host addresses. Generic addresses of shared, local and parameter memory
// lie in windows that no host address is in. A shared::cluster address is rank + 1 of its block in bits 24
// and up; zero there means the block's own.
#pragma once

#include "program.h"

#include <atomic>
#include <map>

namespace kiln::emulator {

inline constexpr std::uint64_t shared_window = std::uint64_t(1) << 56;
inline constexpr std::uint64_t local_window = std::uint64_t(2) << 56;
inline constexpr std::uint64_t param_window = std::uint64_t(3) << 56;
inline constexpr std::uint64_t code_window = std::uint64_t(4) << 56; // "addresses" of functions
inline constexpr std::uint64_t window_mask = std::uint64_t(0xff) << 56;
inline constexpr int cluster_shift = 24;
// .param addresses from here on are variables of a frame, below it the kernel's parameters.
inline constexpr std::uint64_t frame_params = std::uint64_t(1) << 20;

std::string hexadecimal(std::uint64_t v); // "0x1f"

struct Region {
  enum class Kind : std::uint8_t { Global, Constant, Shared, Local, Param };
  Kind kind = Kind::Global;
  std::uint64_t base = 0, bytes = 0; // as addressed
  std::uint64_t shown = 0;           // the base in reports
  std::uint8_t* data = nullptr;
  // 1 for each byte that was written, or 0, or copied_unwritten (unwritten.h); empty: all were.
  std::vector<std::uint8_t> shadow;
  // How many asynchronous copies have not landed yet in each 4 bytes of shared memory; empty: none ever.
  static constexpr std::uint64_t granule = 4;
  std::vector<std::uint16_t> landing;
  // Which 8 bytes of shared memory are mbarriers, from their init to their inval; empty: none ever.
  static constexpr std::uint64_t mbarrier_bytes = 8;
  std::vector<bool> mbarriers;
  bool live_mbarrier(std::uint64_t offset, std::uint64_t size) const {
    for (auto n = offset / mbarrier_bytes; size && n <= (offset + size - 1) / mbarrier_bytes; ++n)
      if (n < mbarriers.size() && mbarriers[n]) return true;
    return false;
  }
  std::string name;
  bool alive = true, writable = true, owned = false;
  std::unique_ptr<std::uint8_t[]> storage;
};

// Allocations by address. Freed ones stay known, and their memory unused, until a lot was freed.
class Allocations {
public:
  Allocations();
  ~Allocations();
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;
  Region& allocate(std::uint64_t bytes, std::string name, bool shadowed);
  void free(std::uint64_t address);
  Region& share(void* host, std::uint64_t bytes, std::string name, bool writable);
  void forget(std::uint64_t address);
  // The region that starts at or before the address, if it is no further behind its end than a guard.
  Region* nearest(std::uint64_t address);
  Region* containing(std::uint64_t address, std::uint64_t bytes) {
    Region* last = last_.load(std::memory_order_relaxed);
    if (last && address - last->base < last->bytes && bytes <= last->bytes - (address - last->base))
      return last;
    return find(address, bytes);
  }
  // "4 bytes past the end of allocation x (128 bytes at 0x...)"
  std::string describe(std::uint64_t address, std::uint64_t bytes);
  // An address as reports name it: the same in every run, as if the n-th allocation started at n << 40.
  // Addresses close to no allocation are shown as they are.
  std::uint64_t shown(std::uint64_t address) const;

private:
  std::uint64_t next_shown(std::uint64_t base);
  std::uint8_t* from_arena(std::uint64_t bytes); // null if there is no room

  // Addresses of our own, so that allocations lie the same way in every run; used from the middle on, and
  // only once.
  std::uint64_t arena_ = 0, arena_next_ = 0;
  Region* find(std::uint64_t address, std::uint64_t bytes);
  std::map<std::uint64_t, std::unique_ptr<Region>> regions_;
  std::vector<std::uint64_t> freed_;
  std::uint64_t freed_bytes_ = 0, allocated_ = 0;
  std::atomic<Region*> last_{nullptr}; // alive; found by any of the threads that run blocks
};

} // namespace kiln::emulator
