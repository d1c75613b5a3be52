// Defines the state that the race checker keeps of blocks, words, mbarriers and asynchronous operations.
#pragma once

#include "races.h"

namespace kiln::emulator {

// The knowledge of the threads that have arrived at a barrier.
struct RaceChecker::BarrierArrivals {
  Knowledge knowledge;
  Slots slots; // the clock's slots of the barrier's block
  std::vector<std::pair<Warp*, Mask>> waiting;
};

struct RaceChecker::BlockState {
  std::uint32_t number = 0;
  Shadow shared;
  std::vector<WarpClocks> warps;
  BarrierArrivals barriers[16];
  Knowledge cluster_arriving, cluster_done; // of the cluster's barrier; in the block of rank 0
  // A pair of slots that is lent to an asynchronous operation: one for what it reads, one for what it writes.
  struct Unit {
    std::uint32_t stamp = 0;
    bool in_use = false;
  };
  struct RemoteAccess { // an access of a warp of another block to this block's shared memory
    Touch touch;
    Warp* warp;
    const Instruction* instruction;
  };
  std::vector<RemoteAccess> remote_accesses;
  // A use of this block's shared memory by an asynchronous operation with an mbarrier: the last one of its
  // lane and instruction.
  struct Use {
    Warp* warp;
    const Instruction* instruction;
    int lane;
    std::uint32_t block, slot, stamp; // of the operation, whose end a thread of the block must know
  };
  std::vector<Use> uses;
  Knowledge at_exit; // of the threads that have exited
  std::vector<Unit> units;
  std::size_t next_unit = 0;
};

// The knowledge that was released to a word: to threads of a block, of a cluster, and to all threads.
struct RaceChecker::SyncWord {
  std::vector<std::pair<std::uint32_t, Knowledge>> by_block, by_cluster;
  Knowledge all;
};

struct RaceChecker::Phase {
  Knowledge arriving, done;
  Knowledge remote_arriving, remote_done; // of threads of blocks other than the mbarrier's
};

struct RaceChecker::Operation {
  std::uint32_t block = 0, stamp = 0, unit = 0;
  bool landed = false;
  Knowledge at_issue;
};

// The thread or operation that accesses memory at a call of touch().
struct RaceChecker::Actor {
  Warp& warp;
  const WarpClocks& clocks;
  const Instruction& instruction;
  int lane;
  Mask program; // lanes whose program order leads to this access: one lane, or a whole warp
  Touch as;
  const Access* access; // null for asynchronous operations
  bool in_shared;
};

} // namespace kiln::emulator
