// What the lanes of one warp know: a row for each of what its own warp did, and a clock for the rest.
#pragma once

#include "clocks.h"

#include <array>

namespace kiln::emulator {

// Lanes mostly know the same, after a barrier or a shuffle; then one row and one clock serve all.
class WarpClocks {
public:
  WarpClocks(std::uint32_t block, std::uint32_t warp) : block_(block), warp_(warp) {}

  std::uint32_t stamp() const { return stamp_; } // of accesses now
  void tick() { ++stamp_; }                      // after something was made known

  // Whether a lane knows what slot `slot` of block `block` did at `stamp`.
  bool knows(int lane, std::uint32_t block, std::uint32_t slot, std::uint32_t stamp) const {
    if (block == block_) {
      if (slot / slots_of_warp == warp_) return row(lane)[slot % slots_of_warp] >= stamp;
      const Slots* s = own_[same_clock_ ? 0 : lane];
      return s && slot < s->size() && (*s)[slot] >= stamp;
    }
    const ClockPtr& c = clock(lane);
    return c && c->knows(block, slot, stamp);
  }
  bool uniform() const { return same_row_ && same_clock_; } // all lanes know the same, of others
  const std::uint32_t* row(int lane) const {
    return rows_[same_row_ ? 0 : static_cast<std::size_t>(lane)].data();
  }
  const ClockPtr& clock(int lane) const { return clocks_[same_clock_ ? 0 : static_cast<std::size_t>(lane)]; }

  // Lanes that learn of each other; `living` are all that have not exited.
  void synchronise(Mask lanes, Mask living);
  // All that a lane knows, with its own past.
  Knowledge release(int lane);
  void acquire(int lane, const Knowledge& k);
  // The pasts of lanes put into a barrier: its clock, and the slots of this block.
  void release_into(Mask lanes, Knowledge& rest, Slots& slots);
  // What a barrier knows for all of these lanes, which replaces what they knew.
  void learn(Mask lanes, Mask living, const Knowledge& k);
  // A lane learns that its cp.async are done up to `stamp`; or one slot of its block.
  void finish_copy(int lane, std::uint32_t stamp);
  void finish(Mask lanes, Mask living, std::uint32_t block, std::uint32_t slot, std::uint32_t stamp);

  // Scopes: 0 block, 1 cluster, 2 all; and those below.
  void fence(int lane, int scope, bool acquires, bool releases);
  void proxy_fence(int lane, bool shared, bool global);
  void init_fence(int lane); // fence.mbarrier_init
  bool any_fences() const { return fences_ != nullptr; }
  // Null if there were no such fences.
  const ClockPtr& proxied(int lane, bool global) const;
  const ClockPtr& fenced(int lane, int scope) const;
  const ClockPtr& initialised(int lane) const;
  // Learnt by relaxed reads, but not known before a fence.
  void add_unfenced(int lane, int scope, const Knowledge& k);

private:
  struct Fences {
    std::array<ClockPtr, warp_size> proxied[2], fenced[3], initialised;
    std::array<Knowledge, warp_size> unfenced[3];
  };
  void spread_rows();
  void spread_clocks();
  void set_clock(int lane, ClockPtr c);
  void set_all_clocks(ClockPtr c);
  void add_fences(int lane, Knowledge& to) const;
  Fences& fences() { return fences_ ? *fences_ : *(fences_ = std::make_unique<Fences>()); }

  using Row = std::array<std::uint32_t, slots_of_warp>;
  std::uint32_t block_, warp_, stamp_ = 1;
  bool same_row_ = true, same_clock_ = true;
  std::array<Row, warp_size> rows_{};
  std::array<ClockPtr, warp_size> clocks_;
  std::array<const Slots*, warp_size> own_{}; // of the block, in the clocks
  std::unique_ptr<Fences> fences_;
};

} // namespace kiln::emulator
