// Keeps the vector clocks of the lanes of a warp: for each lane, a row for its own warp and a Clock for all
// others.
#pragma once

#include "clocks.h"

#include <array>

namespace kiln::emulator {

// After a barrier or a shuffle all lanes know the same; then one row and one clock serve all of them.
class WarpClocks {
public:
  WarpClocks(std::uint32_t block, std::uint32_t warp) : block_(block), warp_(warp) {}

  std::uint32_t stamp() const { return stamp_; } // the stamp of accesses now
  void tick() { ++stamp_; }                      // called after a release

  // Whether a lane knows of the access of slot `slot` of block `block` at `stamp`.
  bool knows(int lane, std::uint32_t block, std::uint32_t slot, std::uint32_t stamp) const {
    if (block == block_) {
      if (slot / slots_of_warp == warp_) return row(lane)[slot % slots_of_warp] >= stamp;
      const Slots* s = own_[same_clock_ ? 0 : lane];
      return s && slot < s->size() && (*s)[slot] >= stamp;
    }
    const ClockPtr& c = clock(lane);
    return c && c->knows(block, slot, stamp);
  }
  bool uniform() const { return same_row_ && same_clock_; } // whether all lanes have the same clocks
  const std::uint32_t* row(int lane) const {
    return rows_[same_row_ ? 0 : static_cast<std::size_t>(lane)].data();
  }
  const ClockPtr& clock(int lane) const { return clocks_[same_clock_ ? 0 : static_cast<std::size_t>(lane)]; }

  // Orders these lanes with each other; `living` are all lanes that have not exited.
  void synchronise(Mask lanes, Mask living);
  // Returns what a lane knows, its own accesses included.
  Knowledge release(int lane);
  void acquire(int lane, const Knowledge& k);
  // Adds what lanes know to a barrier: to its clock, and to the slots of this block.
  void release_into(Mask lanes, Knowledge& rest, Slots& slots);
  // Gives these lanes the knowledge of a barrier, which replaces (and includes) their own.
  void learn(Mask lanes, Mask living, const Knowledge& k);
  // Records that a lane's cp.async up to `stamp` have ended, or an operation in a slot of a block.
  void finish_copy(int lane, std::uint32_t stamp);
  void finish(Mask lanes, Mask living, std::uint32_t block, std::uint32_t slot, std::uint32_t stamp);

  // Scopes: 0 is the block, 1 the cluster, 2 all threads; each includes the smaller ones.
  void fence(int lane, int scope, bool acquires, bool releases);
  void proxy_fence(int lane, bool shared, bool global);
  void init_fence(int lane); // fence.mbarrier_init
  bool any_fences() const { return fences_ != nullptr; }
  // The knowledge that such fences released or passed on; null without fences.
  const ClockPtr& proxied(int lane, bool global) const;
  const ClockPtr& fenced(int lane, int scope) const;
  const ClockPtr& initialised(int lane) const;
  // Adds what a relaxed read has seen, which the lane acquires at its next fence.
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
  std::array<const Slots*, warp_size> own_{}; // the slots of this block in the clocks
  std::unique_ptr<Fences> fences_;
};

} // namespace kiln::emulator
