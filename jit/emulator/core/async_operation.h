// An asynchronous operation between its issue and its end: cp.async, bulk and tensor copies, wgmma.
//
// It takes place in three steps, at moments that the seed and `Options::asynchrony` choose: it is issued, it
// has read its sources, it has landed (its results are where they belong). Who may look at the results is
// another matter: threads that waited for the operation's group, or saw the phase of its mbarrier end.
#pragma once

#include "program.h"

#include <vector>

namespace kiln::emulator {

class Block;
struct Region;

enum class AccessKind : std::uint8_t { Read, Write, Atomic };
enum class Proxy : std::uint8_t { Generic, Async, Tensormap };

// Memory that an asynchronous operation reads, writes or updates.
struct Range {
  AccessKind kind = AccessKind::Read;
  std::uint8_t* host = nullptr;
  std::uint64_t bytes = 0;
  Region* region = nullptr;
  Block* block = nullptr; // whose shared memory it is
  int lane = 0;           // for which one
};

struct AsyncOperation {
  enum class Kind : std::uint8_t { Copy, Bulk, Tensor, Wgmma };
  enum class Queue : std::uint8_t { Copies, Bulk, Wgmma, Mbarrier }; // what is waited for: groups, or a phase
  std::uint64_t id = 0;                                              // counts up in a launch
  Kind kind = Kind::Copy;
  Proxy proxy = Proxy::Generic; // of its accesses; of cp.async the generic one
  Warp* warp = nullptr;
  const Instruction* instruction = nullptr;
  Mask lanes = 0; // that issued it: one of a bulk copy, all of a wgmma
  std::vector<Range> ranges;

  // --- Of the queue that it is in (async_operations.h)
  Queue queue = Queue::Copies;
  bool after_copies = false; // lands when the warp's earlier cp.async have
  std::uint32_t group = 0;   // the lanes' open group when it was issued
  Mask unread = 0, in_flight = 0, unwaited = 0;
  std::uint8_t waiters = 0; // warps of the warpgroup that waited for a wgmma
  virtual ~AsyncOperation() = default;
  virtual void poison() {}                              // what the results will replace
  virtual void read(Mask /*lanes*/) {}                  // takes the sources
  virtual void waited() {}                              // by all lanes
  virtual void land(Block& /*from*/, Mask /*lanes*/) {} // and puts the results in place
};

} // namespace kiln::emulator
