// Records the last accesses of each word of memory, as far as a race with them is still possible.
//
// A cell stands for 4 bytes. It holds the accesses that no later access replaces: an access is forgotten when
// one that happened after it would race with everything that it could race with. Where threads access parts
// of a word, its cell is split into one for each byte.
#pragma once

#include "clocks.h"

#include <array>
#include <deque>
#include <unordered_map>

namespace kiln::emulator {

// An access by lanes of a warp or by an asynchronous operation.
struct Touch {
  enum Flag : std::uint16_t {
    Writes = 1,
    Strong = 2,     // relaxed or stronger, atomic, volatile
    ScopeShift = 2, // two bits of Scope
    AsyncProxy = 16,
    Copy = 32,     // by the cp.async of its lanes
    Init = 128,    // mbarrier.init
    LentSlot = 64, // by another asynchronous operation, in the lent slots `unit`
  };
  std::uint32_t block = 0; // number of the block; 0: no access
  std::uint32_t stamp = 0;
  Mask lanes = 0;
  std::uint32_t site = 0; // the instruction, and in the upper 8 bits the warp
  std::uint16_t unit = 0; // the warp, or the lent slots
  std::uint16_t flags = 0;

  bool writes() const { return flags & Writes; }
  bool strong() const { return flags & Strong; }
  Scope scope() const { return static_cast<Scope>(flags >> ScopeShift & 3); }
  bool same_actor(const Touch& o) const {
    return block == o.block && stamp == o.stamp && unit == o.unit && flags == o.flags;
  }
};

struct Cell {
  static constexpr std::uint32_t here = 2;
  Touch first[here];
  std::uint32_t count = 0; // of all touches
  std::uint32_t more = 0;  // 1 + index of its CellMore; 0 without one
};

struct CellMore {
  std::vector<Touch> touches;                 // those after the first two
  std::unique_ptr<std::array<Cell, 4>> bytes; // if the cell is split
};

// The cells of a block's shared memory, or of all global memory, by address.
class Shadow {
public:
  static constexpr std::uint64_t page_bytes = 1024;
  using Page = std::array<Cell, page_bytes / 4>;

  Cell& at(std::uint64_t address) {
    const std::uint64_t n = address / page_bytes;
    if (n != last_number_) find(n);
    return (*last_)[address % page_bytes / 4];
  }
  CellMore& more(Cell& c) {
    if (!c.more) {
      more_.emplace_back();
      c.more = static_cast<std::uint32_t>(more_.size());
    }
    return more_[c.more - 1];
  }

private:
  void find(std::uint64_t number);
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::deque<CellMore> more_;
  std::uint64_t last_number_ = ~std::uint64_t(0);
  Page* last_ = nullptr;
};

} // namespace kiln::emulator
