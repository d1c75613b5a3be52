// Finds races: pairs of accesses, at least one of them a write, that nothing orders.
//
// Vector clocks find a race regardless of the order in which this run executed the two accesses.
//
// These order accesses:
//  - The program order of a lane.
//  - Barriers of the block (bar.arrive included), of the cluster (unless .relaxed) and of the warp. Warp-wide
//    instructions like shfl.sync order their members too, as programs assume (the PTX manual guarantees it
//    for bar.warp.sync only).
//  - mbarriers: an arrival releases, and a wait that passes acquires. A wait that passes also sees the copies
//    that the phase counted. Between blocks of a cluster, arrival and wait must both have the cluster's scope
//    to order a plain read after a plain write. For other pairs, such as an overwrite after a read, the scope
//    of the block is enough: it is the default, by which programs announce that memory is free again.
//  - Atomics, loads and stores that acquire and release, and fences around relaxed or volatile ones, by the
//    rules of PTX: the scopes of both sides must include the other. Atomics continue a release, a store ends
//    it. A fence also serves threads that its thread then synchronises with at a barrier ("all threads fence,
//    bar.sync, thread 0 sets a flag" is common in CUDA).
// Nothing else orders accesses of different blocks; the end of a launch orders everything.
//
// Two accesses conflict if they access the same bytes and at least one of them is a write. Two strong
// accesses (atomic, relaxed or stronger, volatile, operations on mbarriers) whose scopes include each other
// do not conflict. Neither do two stores of the same value: many threads writing the same value is common and
// harmless. Lanes of a warp race like other threads, also by one instruction that writes different values. A
// compare-and-swap accesses only the bytes that it would change: if an element is smaller than what a GPU can
// swap, the other bytes of the swap belong to its neighbours.
//
// Volatile accesses are relaxed ones with the scope of the system, as in PTX: on one word they do not race,
// for any threads and any memory, and they order nothing else. Accesses to other data that they announce race
// unless there are fences on both sides. A plain load that only guesses the value for a compare-and-swap of
// its word (instructions/speculation.h) counts as relaxed too. An ld.global.nc of a word that the kernel
// wrote before is reported even if the two are ordered, because the cache that it reads is not coherent.
//
// Asynchronous operations are like threads between issue and end: what precedes the issue happens before
// them, and they happen before what follows a wait for their group or for the phase that counts them. The
// async proxy sees what generic accesses wrote only after a fence.proxy.async on the path between the two; an
// mbarrier's own words need none, because Triton emits none. A copy that an mbarrier counts is an access of
// the mbarrier: that another block initialised it must be known by a release, or by a fence.mbarrier_init of
// the thread that initialised it, which covers initialisations only.
//
// Memory is bounded: of a word with more than 64 accesses that can still race, some are forgotten.
#pragma once

#include "shadow.h"
#include "warp_clocks.h"
#include <kiln/jit/emulator/core/block.h>

#include <map>
#include <unordered_map>

namespace kiln::emulator {

class RaceChecker : public Probe {
public:
  explicit RaceChecker(Execution& execution);
  ~RaceChecker() override;

  void block_started(Block&) override;
  void block_finished(Block&) override;
  void access(const Access&) override;
  void warp_synchronised(Warp&, Mask lanes) override;
  void barrier_arrived(Warp&, const Instruction&, int barrier, Mask lanes) override;
  void barrier_opened(Block&, int barrier) override;
  void fence(Warp&, const Instruction&, const Fence&, Mask lanes) override;
  void cluster_arrived(Warp&, const Instruction&, Mask lanes, bool relaxed) override;
  void cluster_opened(Block&) override;
  void cluster_waited(Warp&, const Instruction&, Mask lanes) override;
  void mbarrier(Warp&, const Instruction&, const MbarrierEvent&) override;
  void mbarrier_phase_ended(std::uint8_t* host) override;
  void issued(const AsyncOperation&) override;
  void landed(const AsyncOperation&) override;
  void counted(const AsyncOperation&, std::uint8_t* mbarrier, std::uint64_t bytes) override;
  void waited(Warp&, const Instruction&, Mask lanes, const AsyncOperation&, bool only_read) override;
  void lanes_exited(Warp&, Mask lanes) override;

private:
  struct BarrierArrivals; // arrivals at a barrier, until it opens
  struct BlockState;
  struct SyncWord;  // what was released to a word of memory
  struct Phase;     // the phases of an mbarrier
  struct Operation; // an asynchronous operation
  struct Actor;

  BlockState& state(const Block& b);
  WarpClocks& clocks(const Warp& w);
  Shadow& shadow_of(const Region& region, std::uint64_t& address);
  std::uint32_t site(const Instruction& i);

  void touch(Shadow& shadow, std::uint64_t address, std::uint64_t bytes, const Actor& by);
  void touch_cell(Shadow& shadow, Cell& cell, std::uint64_t address, std::uint32_t bytes, const Actor& by);
  static bool needs_cluster_scope(const Touch& before, const Actor& by);
  bool ordered(const Touch& before, const Actor& by) const {
    return ordered(before, by, cluster_size_ > 1 && !needs_cluster_scope(before, by));
  }
  bool ordered(const Touch& before, const Actor& by, bool block_scope_counts) const;
  bool proxied(const Touch& before, const Actor& by, bool global) const;
  bool same_value(const Touch& before, std::uint64_t address, std::uint32_t bytes, const Actor& by) const;
  void race(const Touch& before, std::uint64_t address, const Actor& by, Fault fault);
  void synchronise(const Access& a);
  // Records an access of another block's shared memory.
  void note_remote_access(BlockState& owner, const Actor& by);
  OtherAccess describe(const Touch& t) const;
  std::uint32_t cluster_of(std::uint32_t block) const;
  bool same_cluster(std::uint32_t a, std::uint32_t b) const { return cluster_of(a) == cluster_of(b); }
  Knowledge release(Warp& w, Mask lanes); // by all of them together

  Execution& execution_;
  std::unordered_map<const Block*, std::unique_ptr<BlockState>> blocks_;
  std::unordered_map<const Region*, BlockState*> by_region_;
  const Block* last_block_ = nullptr;
  BlockState* last_state_ = nullptr;
  std::vector<std::array<std::uint32_t, 3>> started_; // index in the grid of each block, by number - 1
  Shadow global_;
  std::unordered_map<std::uint64_t, std::unique_ptr<SyncWord>> words_; // by host address
  std::unordered_map<const std::uint8_t*, std::unique_ptr<Phase>> mbarriers_;
  std::map<std::uint64_t, Operation> operations_; // by id
  std::vector<const Instruction*> sites_;
  std::unordered_map<const Instruction*, std::uint32_t> site_of_;
  const Instruction* last_instruction_ = nullptr;
  std::uint32_t last_site_ = 0;
  std::uint32_t cluster_size_ = 1;
  std::uint32_t random_ = 1;
};

} // namespace kiln::emulator
