// Vector clocks: what a thread knows of the pasts of others.
//
// Everything that does something is an actor with a slot in its block: a lane (64 w + l in warp w), the
// cp.async of a lane (64 w + 32 + l), and behind those the asynchronous operations that have a slot lent
// while they fly. The lanes of a warp share a counter, which goes up whenever one of them lets others know
// its past; an access is stamped with it. A thread knows an access if what it knows of the accessor's slot is
// no less than the stamp: then the access happened before.
//
// A Clock never changes once made, so that threads which know the same hold the same one.
#pragma once

#include <kiln/jit/emulator/core/program.h>

#include <memory>
#include <utility>
#include <vector>

namespace kiln::emulator {

using Slots = std::vector<std::uint32_t>; // missing ones are 0
inline constexpr std::uint32_t slots_of_warp = 2 * warp_size;

// In a clock, instead of a block's number: what is known of that block through an mbarrier whose arrival or
// wait had the scope of a block only, where they are in two.
inline constexpr std::uint32_t block_scope_only = std::uint32_t(1) << 31;

class Clock;
using ClockPtr = std::shared_ptr<const Clock>; // null: nothing is known

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
  // `c` with the slots of a block replaced.
  static ClockPtr with(const ClockPtr& c, std::uint32_t block, Slots slots);
  static ClockPtr with_block_scope_only(const ClockPtr& c); // all of it known by the scope of a block only
  static ClockPtr join(const ClockPtr& a, const ClockPtr& b);

private:
  std::vector<std::pair<std::uint32_t, std::shared_ptr<const Slots>>> known_; // by block
};

void raise(Slots& to, const Slots& by); // to the larger of both, slot by slot

// What a thread makes known by a release, and learns by an acquire.
struct Knowledge {
  ClockPtr clock;
  ClockPtr proxied[2];  // what fence.proxy.async made known to the async proxy: of shared, of global memory
  ClockPtr fenced[3];   // what fences made known: to the block, the cluster, all
  ClockPtr initialised; // the mbarrier.init that fence.mbarrier_init made known

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
