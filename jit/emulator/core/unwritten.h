// Values in registers that were loaded from memory nothing wrote, as far as nobody has used them.
//
// Correct programs copy bytes that nothing wrote: the padding of structs, members that are set later. So a
// load of such bytes is not told at once. It marks their bits in its registers, and these marks go where the
// bits go: through moves, packing and unpacking, selects, shifts, masks, extracts, conversions between
// integers, shfl, parameters of calls, and back to memory, where the bytes count as not written again. The
// load is told when anything else takes a marked bit: arithmetic, comparisons, addresses, atomics, mma.
//
// Two loads are told without that: one whose value nothing in the function reads, and one whose value is
// stored to global memory with all bits of the store marked, since results leave a kernel there. That is
// not told of padding: where the load, together with loads beside it of the same base register and basic
// block, so far as they are in the same aligned 16 bytes, has bytes that were written (structs are copied
// like that), or where it is of a single byte and any of the aligned 8 bytes around it was written (long
// copies go byte by byte). A cp.async is told at once if nothing of what it copies was written; it copies
// the marks of bytes otherwise.
//
// A frame has marks only while some register of it is marked; instructions ask for no more than that.
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

using Bits = unsigned __int128; // of a register

// The load that a value comes from.
struct Origin {
  const Instruction* load = nullptr; // or a cp.async
  std::uint64_t address = 0;
  std::uint8_t bytes = 0, first = 0; // of the load, and the first of them that nothing wrote
  Region::Kind kind = Region::Kind::Global;
  bool padding = false; // beside bytes that were written, where it was loaded last
};
// Of bytes that were copied, by address / 4.
using Origins = std::unordered_map<std::uint64_t, Origin>;
inline constexpr std::uint8_t copied_unwritten = 2; // in a shadow, where Origins knows more

// The marks of a frame.
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
  void set(std::uint32_t reg, int lane, Bits bits, const Origin& origin); // no bits: clears it
  void clear(std::uint32_t reg, Mask lanes);
  bool any() const { return marked_ != 0; }

private:
  struct Register {
    Mask lanes = 0;
    Bits bits[warp_size];
    Origin origin[warp_size];
  };
  std::vector<std::unique_ptr<Register>> registers_; // by place / 64
  int marked_ = 0;                                   // registers
};

// What an instruction of a frame with marks makes of them, before it runs.
void follow_unwritten(Warp& warp, Frame& frame, const Instruction& i, Mask lanes);
// After a load of `bytes` for each register, of which to.unwritten have not all been written.
void load_unwritten(Warp& warp, const Instruction& i, const Located& to, std::uint32_t bytes, bool extends);
// After a store in a frame with marks.
void store_unwritten(Warp& warp, const Instruction& i, const Located& to, std::uint32_t bytes);
// After a shfl that took the value of lane from[l] for lane l.
void shuffle_unwritten(const Participant* participants, int count, const int* from);
// After a cp.async found its source of `bytes`: tells those lanes of which nothing was written, and returns
// those of which a part was.
Mask report_unwritten(Warp& warp, const Instruction& i, const Located& from, std::uint32_t bytes);
// After it landed; `written`: what the source's shadow was.
void land_unwritten(Execution& execution, const Instruction& i, const std::uint8_t* from, std::uint8_t* to,
                    const std::uint8_t* written, std::uint8_t* shadow, std::uint32_t bytes);
// Parameters of a lane that go from one frame to another.
void pass_unwritten(Execution& execution, const Frame& from, std::uint64_t from_at, Frame& to,
                    std::uint64_t to_at, std::uint64_t bytes);

} // namespace kiln::emulator
