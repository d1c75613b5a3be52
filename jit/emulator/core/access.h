// Where the lanes of an access lead, after all checks.
#pragma once

#include "block.h"

namespace kiln::emulator {

struct Located {
  Mask lanes = 0; // that may access
  Mask unwritten =
      0; // of them, that read bytes nothing wrote and were not told (Instruction::tracks_unwritten)
  std::uint8_t* host[warp_size];
  Region* region[warp_size];
  std::uint64_t address[warp_size];
};

// The addresses of i: register i.a, of 32 or 64 bits by i.mode2, plus i.offset.
void addresses(const Warp& warp, const Instruction& i, Mask lanes, std::uint64_t* to);

// What an access is for.
enum class Purpose : std::uint8_t {
  Data,
  Copied,  // of an asynchronous copy, at its issue
  Mbarrier // an operation on an mbarrier's 64 bits
};

// Checks the access of `bytes` at to.address of each lane and fills the rest of `to`. Faults are reported and
// their lanes left out. `data`: Access::data.
void locate(Warp& warp, const Instruction& i, Mask lanes, ptx::Space space, std::uint32_t bytes,
            std::uint32_t align, AccessKind kind, Located& to, Purpose purpose = Purpose::Data,
            const std::uint8_t* data = nullptr);

// One lane's access of `bytes` at an address, without a word to the probe: false if it was a fault.
struct Place {
  std::uint8_t* host = nullptr;
  Region* region = nullptr;
  std::uint8_t* shadow = nullptr; // or null
  Block* block = nullptr;         // whose shared memory it is
};
bool locate_one(Warp& warp, const Instruction& i, int lane, ptx::Space space, std::uint64_t address,
                std::uint32_t bytes, std::uint32_t align, AccessKind kind, Place& to);

} // namespace kiln::emulator
