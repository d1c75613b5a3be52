// What the race checker keeps of blocks, words, mbarriers and operations in flight.
#pragma once

#include "races.h"

namespace kiln::emulator {

// Of a barrier: what those who came so far know.
struct RaceChecker::BarrierArrivals {
  Knowledge knowledge;
  Slots slots; // of the barrier's block
  std::vector<std::pair<Warp*, Mask>> waiting;
};

struct RaceChecker::BlockState {
  std::uint32_t number = 0;
  Shadow shared;
  std::vector<WarpClocks> warps;
  BarrierArrivals barriers[16];
  Knowledge cluster_arriving, cluster_done; // in the block of rank 0
  // Slots lent to asynchronous operations: a pair each, of what they read and what they write.
  struct Unit {
    std::uint32_t stamp = 0;
    bool in_use = false;
  };
  struct RemoteAccess { // of another block's warp to the shared memory here
    Touch touch;
    Warp* warp;
    const Instruction* instruction;
  };
  std::vector<RemoteAccess> remote_accesses;
  struct Use { // of the shared memory here, by an operation that an mbarrier counts; the last one of its kind
    Warp* warp;
    const Instruction* instruction;
    int lane;
    std::uint32_t block, slot, stamp; // whose end is to be known
  };
  std::vector<Use> uses;
  Knowledge at_exit; // of threads that have exited
  std::vector<Unit> units;
  std::size_t next_unit = 0;
};

// What a word was released with: for threads of its block, of its cluster, for all.
struct RaceChecker::SyncWord {
  std::vector<std::pair<std::uint32_t, Knowledge>> by_block, by_cluster;
  Knowledge all;
};

struct RaceChecker::Phase {
  Knowledge arriving, done;
  Knowledge remote_arriving, remote_done; // of threads of other blocks than the mbarrier's
};

struct RaceChecker::Operation {
  std::uint32_t block = 0, stamp = 0, unit = 0;
  bool landed = false;
  Knowledge at_issue;
};

// Who accesses, at a call of touch().
struct RaceChecker::Actor {
  Warp& warp;
  const WarpClocks& clocks;
  const Instruction& instruction;
  int lane;
  Mask program; // whose program order leads here: the lane's, or that of a whole warp
  Touch as;
  const Access* access; // null for asynchronous operations
  bool in_shared;
};

} // namespace kiln::emulator
