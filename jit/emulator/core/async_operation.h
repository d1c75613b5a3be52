// Defines an asynchronous operation between its issue and its end: cp.async, a bulk or tensor copy, a wgmma.
//
// It has three steps: it is issued, it has read its sources, and it has landed, which means that its results
// are in place. The seed and `Options::asynchrony` choose the moments. Which threads may use the results is a
// separate question: those that waited for the operation's group, or saw the phase of its mbarrier end.
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
  Block* block = nullptr; // the block whose shared memory it is, or null
  int lane = 0;           // the lane that it belongs to
};

struct AsyncOperation {
  enum class Kind : std::uint8_t { Copy, Bulk, Tensor, Wgmma };
  // The object by which threads wait for the operation: a group of one of three kinds, or the phase of an
  // mbarrier.
  enum class Queue : std::uint8_t { Copies, Bulk, Wgmma, Mbarrier };
  std::uint64_t id = 0; // increases in the order of issue
  Kind kind = Kind::Copy;
  Proxy proxy = Proxy::Generic; // that accesses the memory; the generic one for cp.async
  Warp* warp = nullptr;
  const Instruction* instruction = nullptr;
  Mask lanes = 0; // that issued it: one lane for a bulk copy, all for a wgmma
  std::vector<Range> ranges;

  // --- Its state in a queue (async_operations.h)
  Queue queue = Queue::Copies;
  bool after_copies = false; // it lands after all earlier cp.async of the warp
  std::uint32_t group = 0;   // the number of the lanes' open group at its issue
  Mask pending_reads = 0;    // lanes that have not read their sources
  Mask in_flight = 0;        // lanes whose results have not landed
  Mask unwaited = 0;         // lanes that have not been waited for
  std::uint8_t waiters = 0;  // a bit for each warp of the warpgroup that has waited for this wgmma
  virtual ~AsyncOperation() = default;
  virtual void poison() {}                              // fills the destination with garbage
  virtual void read(Mask /*lanes*/) {}                  // reads the sources
  virtual void waited() {}                              // called when all lanes have waited for it
  virtual void land(Block& /*from*/, Mask /*lanes*/) {} // puts the results in place
};

} // namespace kiln::emulator
