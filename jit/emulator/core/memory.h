// Defines the regions of emulated memory, and the meaning of addresses.
//
// Global and constant addresses are host addresses. Generic addresses of shared, local and parameter memory
// lie in windows that contain no host address. A shared::cluster address has rank + 1 of its block in bits 24
// and up; zero there means the block of the thread.
#pragma once

#include "program.h"

#include <atomic>
#include <map>

namespace kiln::emulator {

inline constexpr std::uint64_t shared_window = std::uint64_t(1) << 56;
inline constexpr std::uint64_t local_window = std::uint64_t(2) << 56;
inline constexpr std::uint64_t param_window = std::uint64_t(3) << 56;
inline constexpr std::uint64_t code_window = std::uint64_t(4) << 56; // addresses of functions
inline constexpr std::uint64_t window_mask = std::uint64_t(0xff) << 56;
inline constexpr int cluster_shift = 24;
// .param addresses below this are the kernel's parameters, from here on .param variables of a frame.
inline constexpr std::uint64_t frame_params = std::uint64_t(1) << 20;

std::string hexadecimal(std::uint64_t v); // "0x1f"

struct Region {
  enum class Kind : std::uint8_t { Global, Constant, Shared, Local, Param };
  Kind kind = Kind::Global;
  std::uint64_t base = 0, bytes = 0; // in device addresses
  std::uint64_t shown = 0;           // the base address in reports
  std::uint8_t* data = nullptr;
  // One entry for each byte: 1 if it was written, 0 if not, or copied_unwritten (unwritten.h). Empty: all
  // were.
  std::vector<std::uint8_t> shadow;
  // For each 4 bytes of shared memory, the number of asynchronous copies that have not landed there yet.
  // Empty if there never were any.
  static constexpr std::uint64_t granule = 4;
  std::vector<std::uint16_t> landing;
  // For each 8 bytes of shared memory, whether they are an mbarrier (from mbarrier.init to mbarrier.inval).
  // Empty if there never were any.
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

// All allocations, by address. Freed ones stay known and their memory unused, until their bytes exceed a
// limit.
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
  // The last region that starts at or before the address, if the address is in it or in the guard after its
  // end.
  Region* nearest(std::uint64_t address);
  Region* containing(std::uint64_t address, std::uint64_t bytes) {
    Region* last = last_.load(std::memory_order_relaxed);
    if (last && address - last->base < last->bytes && bytes <= last->bytes - (address - last->base))
      return last;
    return find(address, bytes);
  }
  // "4 bytes past the end of allocation x (128 bytes at 0x...)"
  std::string describe(std::uint64_t address, std::uint64_t bytes);
  // The address that reports show, which is the same in every run: the n-th allocation starts at n << 40.
  // Addresses that are not close to any allocation are shown as they are.
  std::uint64_t shown(std::uint64_t address) const;

private:
  std::uint64_t next_shown(std::uint64_t base);
  std::uint8_t* from_arena(std::uint64_t bytes); // null if there is no space

  // Reserved addresses, so that allocations lie at the same distances in every run. They are used from the
  // middle on, and never again.
  std::uint64_t arena_ = 0, arena_next_ = 0;
  Region* find(std::uint64_t address, std::uint64_t bytes);
  std::map<std::uint64_t, std::unique_ptr<Region>> regions_;
  std::vector<std::uint64_t> freed_;
  std::uint64_t freed_bytes_ = 0, allocated_ = 0;
  std::atomic<Region*> last_{nullptr}; // a live region; any of the threads that run blocks may set it
};

} // namespace kiln::emulator
