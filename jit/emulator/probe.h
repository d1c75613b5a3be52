// Who wants to know what a kernel does: the seam for sanitizers and counters.
#pragma once

#include "program.h"

namespace kiln::emulator {

class Block;
struct Region;

enum class AccessKind : std::uint8_t { Read, Write, Atomic };

// One instruction's access by the lanes of a warp, after the checks for bounds; lanes that failed are not in
// it.
struct Access {
  Warp& warp;
  const Instruction& instruction;
  AccessKind kind;
  bool asynchronous; // by the async proxy or a copy still under way
  Mask lanes;
  std::uint32_t bytes;       // of a lane
  std::uint8_t* const* host; // by lane
  Region* const* region;     // by lane
};

class Probe {
public:
  virtual ~Probe() = default;
  virtual void block_started(Block&) {}
  virtual void block_finished(Block&) {}
  virtual void access(const Access&) {}
  // Lanes of a warp ordered with each other: bar.warp.sync, shfl.sync and their like.
  virtual void warp_synchronised(Warp&, Mask /*lanes*/) {}
  virtual void barrier_arrived(Warp&, const Instruction&, int /*barrier*/, Mask /*lanes*/) {}
  virtual void barrier_opened(Block&, int /*barrier*/) {}
  virtual void fence(Warp&, const Instruction&, Mask) {}
};

} // namespace kiln::emulator
