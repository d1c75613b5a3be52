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

struct Flight {
  enum class Kind : std::uint8_t { Copy, Bulk, Tensor, Wgmma };
  std::uint64_t id = 0; // counts up in a launch
  Kind kind = Kind::Copy;
  Proxy proxy = Proxy::Generic; // of its accesses; of cp.async the generic one
  Warp* warp = nullptr;
  const Instruction* instruction = nullptr;
  Mask lanes = 0; // that issued it: one of a bulk copy, all of a wgmma
  std::vector<Range> ranges;
};

} // namespace kiln::emulator
