// Who wants to know what a kernel does: the seam for sanitizers and counters.
#pragma once

#include "async_operation.h"

namespace kiln::emulator {

// One instruction's access by the lanes of a warp, after the checks for bounds; lanes that failed are not in
// it.
struct Access {
  Warp& warp;
  const Instruction& instruction;
  AccessKind kind;
  bool asynchronous; // of a cp.async at its issue, for those who count; checks look at `issued`
  Mask lanes;
  std::uint32_t bytes;       // of a lane
  std::uint8_t* const* host; // by lane
  Region* const* region;     // by lane
  const std::uint8_t* data;  // of a store: what lane l writes, from byte l * bytes on; null otherwise
};

// fence, membar and their kin.
struct Fence {
  enum class Kind : std::uint8_t {
    Memory,        // fence.{sc,acq_rel,acquire,release}, membar
    ProxyAsync,    // between generic and async proxy, of `space` (Generic: of all)
    ProxyAlias,    // between virtual aliases
    Tensormap,     // fence.proxy.tensormap::generic: `acquires` or `releases`, of 128 bytes at an address
    MbarrierInit,  // fence.mbarrier_init.release.cluster
    WgmmaRegisters // wgmma.fence: registers, and generic writes of shared memory by the same threads not
  };
  Kind kind = Kind::Memory;
  Scope scope = Scope::System;
  bool acquires = true, releases = true, sequential = false;
  ptx::Space space = ptx::Space::Generic;
};

enum class MbarrierUse : std::uint8_t {
  Initialised,
  Invalidated,
  Arrived,   // releases, unless `relaxed`
  Expected,  // bytes more are awaited; comes before Arrived for arrive.expect_tx
  Completed, // bytes less by mbarrier.complete_tx
  Passed     // a test or try_wait told that the phase is over: acquires, unless `relaxed`
};
struct MbarrierEvent {
  MbarrierUse use;
  Scope scope;
  bool relaxed;
  Mask lanes;
  std::uint8_t* const* host; // the mbarrier of each lane
};

class Execution;

class Probe {
public:
  virtual ~Probe() = default;
  virtual void launch_finished(const Execution&) {}
  virtual void block_started(Block&) {}
  virtual void block_finished(Block&) {}
  virtual void access(const Access&) {}
  virtual void lanes_exited(Warp&, Mask /*lanes*/) {}
  // Lanes of a warp ordered with each other: bar.warp.sync, shfl.sync and their like.
  virtual void warp_synchronised(Warp&, Mask /*lanes*/) {}
  virtual void barrier_arrived(Warp&, const Instruction&, int /*barrier*/, Mask /*lanes*/) {}
  virtual void barrier_opened(Block&, int /*barrier*/) {}
  virtual void fence(Warp&, const Instruction&, const Fence&, Mask /*lanes*/) {}

  // The cluster's barrier: arrivals release and waits acquire, unless relaxed. `opened` names the block of
  // rank 0.
  virtual void cluster_arrived(Warp&, const Instruction&, Mask /*lanes*/, bool /*relaxed*/) {}
  virtual void cluster_opened(Block&) {}
  virtual void cluster_waited(Warp&, const Instruction&, Mask /*lanes*/) {}

  // mbarriers, by the host address of their 64 bits.
  virtual void mbarrier(Warp&, const Instruction&, const MbarrierEvent&) {}
  virtual void mbarrier_phase_ended(std::uint8_t* /*host*/) {}

  // Asynchronous operations. From `issued` on any of the ranges may be read or written; after `read` the
  // sources are free, after `landed` all is done. If an mbarrier is given, the operation's bytes (or, for
  // cp.async.mbarrier.arrive, an arrival: bytes 0) are counted there right after: who passes that phase may
  // see the results, also by the generic proxy. `waited`: these lanes, which issued it, waited for it
  // (wait_group; `only_read` with .read); it has landed (or read) before.
  virtual void issued(const AsyncOperation&) {}
  virtual void read(const AsyncOperation&) {}
  virtual void landed(const AsyncOperation&) {}
  virtual void counted(const AsyncOperation&, std::uint8_t* /*mbarrier*/, std::uint64_t /*bytes*/) {}
  virtual void waited(Warp&, const Instruction&, Mask /*lanes*/, const AsyncOperation&, bool /*only_read*/) {}
};

} // namespace kiln::emulator
