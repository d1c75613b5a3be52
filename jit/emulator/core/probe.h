// The interface of probes, which observe what a kernel does: race checks and counters.
#pragma once

#include "async_operation.h"

namespace kiln::emulator {

// One instruction's access by the lanes of a warp, after the checks for bounds. Lanes that failed them are
// not included.
struct Access {
  Warp& warp;
  const Instruction& instruction;
  AccessKind kind;
  bool asynchronous; // a cp.async at its issue: for counters. Checks use `issued`
  Mask lanes;
  std::uint32_t bytes;       // per lane
  std::uint8_t* const* host; // by lane
  Region* const* region;     // by lane
  const std::uint8_t* data;  // of a store: lane l writes the bytes from l * bytes on; null otherwise
};

// fence, membar and similar instructions.
struct Fence {
  enum class Kind : std::uint8_t {
    Memory,        // fence.{sc,acq_rel,acquire,release}, membar
    ProxyAsync,    // between the generic and the async proxy, for `space` (Generic: all spaces)
    ProxyAlias,    // between virtual aliases
    Tensormap,     // fence.proxy.tensormap::generic, which `acquires` or `releases` 128 bytes
    MbarrierInit,  // fence.mbarrier_init.release.cluster
    WgmmaRegisters // wgmma.fence: orders registers, and not generic writes of shared memory
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
  Expected,  // more bytes are expected; comes before Arrived for arrive.expect_tx
  Completed, // fewer bytes are expected, by mbarrier.complete_tx
  Passed     // a test_wait or try_wait returned that the phase has ended: acquires, unless `relaxed`
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
  // These lanes of a warp are ordered with each other: by bar.warp.sync, shfl.sync and similar instructions.
  virtual void warp_synchronised(Warp&, Mask /*lanes*/) {}
  virtual void barrier_arrived(Warp&, const Instruction&, int /*barrier*/, Mask /*lanes*/) {}
  virtual void barrier_opened(Block&, int /*barrier*/) {}
  virtual void fence(Warp&, const Instruction&, const Fence&, Mask /*lanes*/) {}

  // The cluster's barrier: arrivals release and waits acquire, unless relaxed. `cluster_opened` gets the
  // block of rank 0.
  virtual void cluster_arrived(Warp&, const Instruction&, Mask /*lanes*/, bool /*relaxed*/) {}
  virtual void cluster_opened(Block&) {}
  virtual void cluster_waited(Warp&, const Instruction&, Mask /*lanes*/) {}

  // mbarriers are identified by the host address of their 64 bits.
  virtual void mbarrier(Warp&, const Instruction&, const MbarrierEvent&) {}
  virtual void mbarrier_phase_ended(std::uint8_t* /*host*/) {}

  // Asynchronous operations. From `issued` on, any of the ranges may be read or written. After `read` the
  // sources may be overwritten, after `landed` the operation has ended. `counted`: its bytes (or, with 0
  // bytes, the arrival of a cp.async.mbarrier.arrive) are counted on an mbarrier right after it has landed;
  // threads that see that phase end may use the results, also by the generic proxy. `waited`: these lanes,
  // which issued it, waited for it (wait_group; `only_read` with .read), after it had landed (or read).
  virtual void issued(const AsyncOperation&) {}
  virtual void read(const AsyncOperation&) {}
  virtual void landed(const AsyncOperation&) {}
  virtual void counted(const AsyncOperation&, std::uint8_t* /*mbarrier*/, std::uint64_t /*bytes*/) {}
  virtual void waited(Warp&, const Instruction&, Mask /*lanes*/, const AsyncOperation&, bool /*only_read*/) {}
};

} // namespace kiln::emulator
