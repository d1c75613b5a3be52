// Declares Probe, the interface through which race checks and counters observe what a kernel does.
#pragma once

#include "async_operation.h"

namespace kiln::emulator {

// A memory access by one instruction of a warp. Lanes that failed the bounds checks are not included.
struct Access {
  Warp& warp;
  const Instruction& instruction;
  AccessKind kind;
  bool asynchronous; // a cp.async when it is issued: for counters; race checks use `issued`
  Mask lanes;
  std::uint32_t bytes;       // per lane
  std::uint8_t* const* host; // by lane
  Region* const* region;     // by lane
  const std::uint8_t* data;  // of a store: lane l writes the bytes from data + l * bytes on; null otherwise
  const std::uint16_t* touched = nullptr; // as in `locate`
};

// A fence, membar or similar instruction.
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
  Passed     // a test_wait or try_wait found that the phase has ended: acquires, unless `relaxed`
};
struct MbarrierEvent {
  MbarrierUse use;
  Scope scope;
  bool relaxed;
  Mask lanes;
  std::uint8_t* const* host; // the mbarrier of each lane
};

class Execution;

// Receives the events of launches. Each function does nothing unless a derived class overrides it.
class Probe {
public:
  virtual ~Probe() = default;
  virtual void launch_finished(const Execution&) {}
  virtual void block_started(Block&) {}
  virtual void block_finished(Block&) {}
  virtual void access(const Access&) {}
  virtual void lanes_exited(Warp&, Mask /*lanes*/) {}
  // The memory accesses of these lanes are ordered with each other: by bar.warp.sync, shfl.sync or similar.
  virtual void warp_synchronised(Warp&, Mask /*lanes*/) {}
  virtual void barrier_arrived(Warp&, const Instruction&, int /*barrier*/, Mask /*lanes*/) {}
  virtual void barrier_opened(Block&, int /*barrier*/) {}
  virtual void fence(Warp&, const Instruction&, const Fence&, Mask /*lanes*/) {}

  // The barrier of the cluster: arrivals release and waits acquire, unless relaxed. `cluster_opened` receives
  // the block of rank 0.
  virtual void cluster_arrived(Warp&, const Instruction&, Mask /*lanes*/, bool /*relaxed*/) {}
  virtual void cluster_opened(Block&) {}
  virtual void cluster_waited(Warp&, const Instruction&, Mask /*lanes*/) {}

  // mbarriers are identified by the host address of their 64 bits.
  virtual void mbarrier(Warp&, const Instruction&, const MbarrierEvent&) {}
  virtual void mbarrier_phase_ended(std::uint8_t* /*host*/) {}

  // Asynchronous operations. After `issued`, the operation may read and write any of its ranges. After
  // `read`, its sources may be overwritten. After `landed`, it has ended. `counted` follows at once if the
  // bytes of the operation are counted on an mbarrier (with 0 bytes: if it is the arrival of a
  // cp.async.mbarrier.arrive); threads that see that phase end may use the results, also through the generic
  // proxy. `waited` means that these lanes, which issued the operation, waited for it with wait_group, after
  // it had landed (with .read, `only_read`: after it had been read).
  virtual void issued(const AsyncOperation&) {}
  virtual void read(const AsyncOperation&) {}
  virtual void landed(const AsyncOperation&) {}
  virtual void counted(const AsyncOperation&, std::uint8_t* /*mbarrier*/, std::uint64_t /*bytes*/) {}
  virtual void waited(Warp&, const Instruction&, Mask /*lanes*/, const AsyncOperation&, bool /*only_read*/) {}
};

} // namespace kiln::emulator
