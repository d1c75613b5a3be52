// Translates the addresses of an access to host memory, after all checks.
#pragma once

#include "block.h"

namespace kiln::emulator {

struct Located {
  Mask lanes = 0; // lanes whose access passed the checks
  // Those of `lanes` that read unwritten bytes which are tracked (Instruction::tracks_unwritten).
  Mask unwritten = 0;
  std::uint8_t* host[warp_size];
  Region* region[warp_size];
  std::uint64_t address[warp_size];
};

// Computes the addresses of `i`: register i.a, which has i.mode2 bits (32 or 64), plus i.offset.
void addresses(const Warp& warp, const Instruction& i, Mask lanes, std::uint64_t* to);

// The purpose of an access.
enum class Purpose : std::uint8_t {
  Data,
  Copied,  // an asynchronous copy, at its issue
  Mbarrier // an operation on an mbarrier's 64 bits
};

// Checks an access of `bytes` at to.address[lane] for each lane, fills the rest of `to` and notifies the
// probe. Lanes with faults are reported and left out. `data` becomes Access::data. `touched` has a bit for each
// byte of each lane, and only bytes whose bit is set are checked and count as accessed; null stands for all.
void locate(Warp& warp, const Instruction& i, Mask lanes, ptx::Space space, std::uint32_t bytes,
            std::uint32_t align, AccessKind kind, Located& to, Purpose purpose = Purpose::Data,
            const std::uint8_t* data = nullptr, const std::uint16_t* touched = nullptr);

// One lane's access of `bytes` at an address. The probe is not notified. Returns false for a fault.
struct Place {
  std::uint8_t* host = nullptr;
  Region* region = nullptr;
  std::uint8_t* shadow = nullptr; // null if all bytes count as written
  Block* block = nullptr;         // the block whose shared memory it is, or null
};
bool locate_one(Warp& warp, const Instruction& i, int lane, ptx::Space space, std::uint64_t address,
                std::uint32_t bytes, std::uint32_t align, AccessKind kind, Place& to);

} // namespace kiln::emulator
