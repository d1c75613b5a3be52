// Follows unwritten bits through registers and memory until an instruction uses them.
//
// Correct programs copy bytes that were never written, such as the padding of structures or members that are
// set later. So a load of such bytes is not reported at once. It marks their bits in its registers, and the
// marks follow the bits: through moves, packing and unpacking, selects, shifts, masks, extracts, conversions
// between integers, shfl, parameters of calls, and back to memory, where the bytes count as unwritten again.
// The load is reported when any other instruction uses a marked bit: arithmetic, comparisons, addresses,
// atomics, mma.
//
// Two kinds of load are reported without such a use: one whose value no instruction of the function reads,
// and one whose value is stored to global memory with all bits of the store marked, since results leave a
// kernel there. Padding is excepted from both, and counts as such in two cases. First, the load and the loads
// adjacent to it in the same basic block with the same base register, as far as they are in the same aligned
// 16 bytes, include bytes that were written (structures are copied like that). Second, the load is of a
// single byte, and any of the aligned 8 bytes around it was written (long copies go byte by byte). A cp.async
// is reported at once if all bytes that it copies are unwritten; otherwise it copies their marks.
//
// A frame has marks only while one of its registers is marked; without marks, instructions check only that.
#pragma once

#include "memory.h"

#include <memory>
#include <unordered_map>
#include <vector>

namespace kiln::emulator {

struct Located;
struct Frame;
struct Participant;
class Execution;
class Warp;

using Bits = unsigned __int128; // a mask of the bits of a register

// The load that an unwritten value comes from.
struct Origin {
  const Instruction* load = nullptr; // may be a cp.async
  std::uint64_t address = 0;
  std::uint8_t bytes = 0, first = 0; // size of the load, and its first unwritten byte
  Region::Kind kind = Region::Kind::Global;
  bool padding = false; // whether bytes next to it were written, at its last load
};
// The origins of unwritten bytes that were copied, by address / 4.
using Origins = std::unordered_map<std::uint64_t, Origin>;
inline constexpr std::uint8_t copied_unwritten = 2; // value of a shadow whose byte has an entry in Origins

// The marks of the registers of a frame.
class Unwritten {
public:
  explicit Unwritten(std::uint32_t register_bytes) : registers_(register_bytes / 64 + 1) {}
  Mask lanes(std::uint32_t reg) const {
    const auto& r = registers_[reg / 64];
    return r ? r->lanes : 0;
  }
  Bits bits(std::uint32_t reg, int lane) const {
    return lanes(reg) >> lane & 1 ? registers_[reg / 64]->bits[lane] : 0;
  }
  const Origin& origin(std::uint32_t reg, int lane) const { return registers_[reg / 64]->origin[lane]; }
  void set(std::uint32_t reg, int lane, Bits bits, const Origin& origin); // without bits, clears the mark
  void clear(std::uint32_t reg, Mask lanes);
  bool any() const { return marked_ != 0; }

private:
  struct Register {
    Mask lanes = 0;
    Bits bits[warp_size];
    Origin origin[warp_size];
  };
  std::vector<std::unique_ptr<Register>> registers_; // by offset / 64
  int marked_ = 0;                                   // number of marked registers
};

// Moves the marks, or reports a use, for an instruction of a frame with marks, before it runs.
void follow_unwritten(Warp& warp, Frame& frame, const Instruction& i, Mask lanes);
// Called after a load of `bytes` for each register, in which the lanes to.unwritten read unwritten bytes.
void load_unwritten(Warp& warp, const Instruction& i, const Located& to, std::uint32_t bytes, bool extends);
// Called after a store in a frame with marks.
void store_unwritten(Warp& warp, const Instruction& i, const Located& to, std::uint32_t bytes);
// Called after a shfl in which lane l gets the value of lane from[l].
void shuffle_unwritten(const Participant* participants, int count, const int* from);
// Called when a cp.async has located its source of `bytes`. Reports lanes whose source is wholly unwritten,
// and returns those whose source is partly written.
Mask report_unwritten(Warp& warp, const Instruction& i, const Located& from, std::uint32_t bytes);
// Called when it has landed; `written` is the shadow of the source when it was read.
void land_unwritten(Execution& execution, const Instruction& i, const std::uint8_t* from, std::uint8_t* to,
                    const std::uint8_t* written, std::uint8_t* shadow, std::uint32_t bytes);
// Passes the marks of parameters of a lane from one frame to another.
void pass_unwritten(Execution& execution, const Frame& from, std::uint64_t from_at, Frame& to,
                    std::uint64_t to_at, std::uint64_t bytes);

} // namespace kiln::emulator
