// Defines vector clocks, which record which accesses of other threads happened before those of a thread.
//
// Each actor has a slot in its block: a lane (64 w + l in warp w), the cp.async of a lane (64 w + 32 + l),
// and after those, pairs of slots that other asynchronous operations are lent while they are in flight. The
// lanes of a warp share a counter, which is incremented whenever one of them releases; an access is stamped
// with it. A thread knows of an access if its clock has at least that stamp in the slot of the accessor: then
// the access happened before.
//
// A Clock does not change once it is made, so that threads with the same knowledge share one.
#pragma once

#include <kiln/jit/emulator/core/program.h>

#include <memory>
#include <utility>
#include <vector>

namespace kiln::emulator {

using Slots = std::vector<std::uint32_t>; // missing slots are 0
inline constexpr std::uint32_t slots_of_warp = 2 * warp_size;

// A bit that is set in the number of a block in a clock: this entry was learnt by an mbarrier between two
// blocks, whose arrival or wait had only the scope of a block.
inline constexpr std::uint32_t block_scope_only = std::uint32_t(1) << 31;

class Clock;
using ClockPtr = std::shared_ptr<const Clock>; // null knows of no access

class Clock {
public:
  const Slots* of(std::uint32_t block) const {
    for (const auto& [b, slots] : known_)
      if (b == block) return slots.get();
    return nullptr;
  }
  bool knows(std::uint32_t block, std::uint32_t slot, std::uint32_t stamp) const {
    const Slots* s = of(block);
    return s && slot < s->size() && (*s)[slot] >= stamp;
  }
  // Returns `c` with the slots of a block replaced.
  static ClockPtr with(const ClockPtr& c, std::uint32_t block, Slots slots);
  static ClockPtr with_block_scope_only(const ClockPtr& c); // all entries of `c` with that bit
  static ClockPtr join(const ClockPtr& a, const ClockPtr& b);

private:
  std::vector<std::pair<std::uint32_t, std::shared_ptr<const Slots>>> known_; // sorted by block
};

void raise(Slots& to, const Slots& by); // sets each slot to the larger of both

// The knowledge that a thread passes on by a release and gets by an acquire.
struct Knowledge {
  ClockPtr clock;
  ClockPtr proxied[2];  // known to the async proxy by fence.proxy.async: of shared and of global memory
  ClockPtr fenced[3];   // released by fences: to the block, the cluster, all threads
  ClockPtr initialised; // the mbarrier.init released by fence.mbarrier_init

  void join(const Knowledge& other) {
    clock = Clock::join(clock, other.clock);
    for (int k = 0; k < 2; ++k)
      proxied[k] = Clock::join(proxied[k], other.proxied[k]);
    for (int k = 0; k < 3; ++k)
      fenced[k] = Clock::join(fenced[k], other.fenced[k]);
    initialised = Clock::join(initialised, other.initialised);
  }
  bool empty() const { return !clock && !initialised; }
};

} // namespace kiln::emulator
