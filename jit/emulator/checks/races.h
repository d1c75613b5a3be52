// Finds pairs of accesses, one of which writes, that nothing orders: by vector clocks, whatever order this
// run happened to have.
//
// What orders. A lane's program order. Barriers of the block (also bar.arrive), of the cluster (unless
// .relaxed), of the warp; warp-wide instructions like shfl.sync order their members too, as programs rely on
// (the manual promises it of bar.warp.sync only). mbarriers: arrivals release, a passed wait acquires, what
// has landed is seen by who passes. Between blocks of a cluster both must have its scope for a plain read of
// what was plainly written; that memory is free again, programs let others know by the scope of the block,
// which is the default. Atomics, loads and stores that acquire and release, and fences around
// relaxed or volatile ones, by the rules of PTX: scopes of both sides must include the other; atomics carry
// a release on, a store ends it. A fence whose thread then meets others at a barrier serves these too
// ("all threads fence, bar.sync, thread 0 sets a flag" is what CUDA programs do). Nothing but those orders
// blocks; the end of a launch orders everything.
//
// What conflicts. Two accesses of the same bytes, one of which writes. Not two strong ones (atomic, relaxed
// or stronger, volatile, operations on mbarriers) whose scopes include each other, and not two stores of one
// value: that many threads write the same is common and harmless. Lanes of one warp race as all others do,
// also by one instruction that writes different values.
//
// Volatile accesses are relaxed ones of the system's scope, as in PTX: of one word they do not race, whatever
// the threads and the memory, and they order nothing else. Other data that they are to announce races unless
// there are fences on both sides. A plain load that only guesses what a compare-and-swap of its word will
// find (instructions/speculation.h) counts as relaxed too. ld.global.nc of what the kernel wrote before is told
// even where it is ordered, since the cache that it reads by is not.
//
// Asynchronous operations are threads of their own between issue and end: before the issue is before them,
// and they are before whoever waited for their group or passed the phase they count on. The async proxy sees
// what generic accesses wrote only behind a fence.proxy.async somewhere on the way between the two; an
// mbarrier's own words need none, as Triton writes none. A copy that counts on an mbarrier is an access of
// it: that another block made it must be known by a release, or by fence.mbarrier_init of the thread that
// made it, which is for initialisations alone.
//
// Bounded memory: of a word with more than 64 accesses that still count, some are forgotten.
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
  struct BarrierArrivals; // of a barrier, until it opens
  struct BlockState;
  struct SyncWord;  // what a word of memory was released with
  struct Phase;     // of an mbarrier
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
  void note_remote_access(BlockState& owner, const Actor& by); // into another block's shared memory
  OtherAccess describe(const Touch& t) const;
  std::uint32_t cluster_of(std::uint32_t block) const;
  bool same_cluster(std::uint32_t a, std::uint32_t b) const { return cluster_of(a) == cluster_of(b); }
  Knowledge release(Warp& w, Mask lanes); // all of them, together

  Execution& execution_;
  std::unordered_map<const Block*, std::unique_ptr<BlockState>> blocks_;
  std::unordered_map<const Region*, BlockState*> by_region_;
  const Block* last_block_ = nullptr;
  BlockState* last_state_ = nullptr;
  std::vector<std::array<std::uint32_t, 3>> started_; // indices of blocks, by number - 1
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
