// How a tile gets from one layout into another: the cheapest way, as data that a code generator emits
// directly.
//
// Both layouts say which element each place (register, lane, warp) holds, and both reach every element of the
// tile. A destination place needs its element from any of the source places that hold it, so everything is a
// matter of solving from(place) = to(destination) over the field of two elements, and of which solutions
// there are (Zhou et al., arXiv 2505.23819, section 5.4):
//
//     the same place               Nothing
//     the same lane and warp       RegisterMoves    renamed registers, no instruction
//     the same warp                WarpShuffles     shfl.idx, with selects before and after
//     any                          SharedExchange   stores, a barrier and loads, free of bank conflicts
//
// All plans are for one pass over the whole tile by all threads of a block. Registers hold one element each.
#pragma once

#include <kiln/jit/gpu/layout/layouts.h>
#include <kiln/jit/gpu/layout/linear_layout.h>

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace kiln::gpu {

// A number that each thread has: an exclusive or of a constant and of one column for each set bit of its lane
// and of its warp (missing columns are zero).
struct ThreadFunction {
  std::uint32_t constant = 0;
  std::vector<std::uint32_t> lane, warp;

  std::uint32_t operator()(std::uint32_t lane_id, std::uint32_t warp_id) const;
  std::uint32_t bits() const; // that any thread's number may have
  bool is_constant() const;   // the same in all threads
  bool is_lane() const;       // the lane's own number
};

// Every thread has what it needs where it needs it.
struct Nothing {};

// Every thread has what it needs: destination register r is source register `source[r]`.
struct RegisterMoves {
  std::vector<int> source;
};

// Every warp has what it needs. A shuffle takes one register of each lane, so slots stand between: in each
// step every lane offers a register that depends on the lane, and takes what another lane offers.
//
//     for register r:     offer[r] = source[r ^ source_flip(lane, warp)]
//     for slot, round:    step = steps[slot * rounds + round]
//                         got[slot][round] = step.moves ? shfl.idx(offer[step.offered],
//                                                                  source_lane(lane, warp) ^ step.lane_flip)
//                                                       : offer[step.offered]
//     for register r:     destination[r] = got[slot_of[r] ^ slot_flip(lane, warp)][kept_round(lane, warp)]
//
// A flip of registers is a network of selects: for each bit that the flip may have, each pair of registers
// that differ in this bit changes places in some threads. Flips that are constant cost nothing. Where lanes
// of a plain plan would need different registers of one lane, `slot_flip` lets them fill different slots at
// that time: a transpose of 2^n registers takes 2^n shuffles, no more. Only where a lane has no other
// register to fill are several rounds needed, in which lanes receive what only some of them keep.
// An element of 8 bytes takes two shuffles, smaller ones take one.
struct WarpShuffles {
  struct Step {
    int offered = 0;   // a register, after the flip
    int lane_flip = 0; // of the lane that is read
    bool moves = true; // false: every lane takes its own offer
  };
  int rounds = 1;
  std::vector<Step> steps;
  std::vector<int> slot_of; // by destination register; registers that hold copies share a slot
  ThreadFunction source_flip, source_lane, slot_flip, kept_round;

  int shuffles() const; // steps that move
  int selects() const;  // of the flips' networks and the choice of rounds
};

// Through shared memory, each element once.
//
//     for pass:    (with its part of stores and of loads, each a `passes`-th of them, in order)
//       if (lane & silent.lanes) == 0 and (warp & silent.warps) == 0:
//         for access in stores:  vector[p] = source[access.registers[p]]
//                                st.shared [base + (store_offset(lane, warp) ^ access.offset)], vector
//       barrier: of the warp if within_warp, else of the block
//       for access in loads:     ld.shared vector, [base + (load_offset(lane, warp) ^ access.offset)]
//                                destination[access.registers[p]] = vector[p]
//       barrier, if there is another pass
//     destination[r] = destination[copy_of[r]]
//
// Offsets are in bytes and aligned to the vector; `base` must be aligned to 128 bytes. Before the scratch is
// used again, another barrier of the same kind is needed. Where a thread's offset and an access's have no bit
// in common, ^ is + and fits into the instruction: see ThreadFunction::bits.
struct SharedExchange {
  struct Access {
    std::uint32_t offset = 0;
    std::vector<int> registers; // in the order of memory; as many as a vector has elements
  };
  LinearLayout memory;      // offset, in elements (and pass, if there are several) -> tile
  bool within_warp = false; // a warp loads only what it has stored itself
  std::int64_t bytes = 0;   // of scratch
  int passes = 1;
  int store_elements = 1, load_elements = 1; // of a vector
  Copies silent;                             // threads with one of these bits do not store
  ThreadFunction store_offset, load_offset;
  std::vector<Access> stores, loads;
  std::vector<int> copy_of; // by destination register: the loaded register with the same element
};

using Conversion = std::variant<Nothing, RegisterMoves, WarpShuffles, SharedExchange>;

// What a plan keeps a warp's lane exchange busy with: a shuffle or a pass over the banks of shared memory is
// 1, a select is 1/2 (twice as many lanes work on those); shared memory waits for a barrier of the warp (16)
// or the block (64) and for its second latency (16). A heuristic from published throughputs, without a
// measurement.
double cost(const WarpShuffles& plan, int element_bytes);
double cost(const SharedExchange& plan, int element_bytes);

// The cheapest plan that brings a tile of elements of 1, 2, 4 or 8 bytes from one layout into another. Both
// reach every element of the same tile and have the same lanes and warps.
// Scratch is kept to `most_scratch_bytes` where passes can do it: see in_passes.
Conversion plan_conversion(const LinearLayout& from, const LinearLayout& to, int element_bytes,
                           std::int64_t most_scratch_bytes = std::int64_t{1} << 62);

// The parts of it. Each answers whether its way can do it; shared memory always can.
bool is_nothing(const LinearLayout& from, const LinearLayout& to);
std::optional<RegisterMoves> plan_register_moves(const LinearLayout& from, const LinearLayout& to);
// At most `max_rounds` shuffles for each slot.
std::optional<WarpShuffles> plan_shuffles(const LinearLayout& from, const LinearLayout& to,
                                          int max_rounds = 4);
// Section 5.4's "optimal swizzling", taken further: the low bits of an offset are registers of both sides
// (the vector), or of one side beyond that; the bits above 128 bytes are chosen to avoid the span of the
// lanes of both sides that the hardware serves together (8 lanes with 16 bytes each, 16 with 8, else 32). Two
// subspaces of at most the size of a row of banks always have a common complement, so no access has a bank
// conflict.
SharedExchange plan_shared_exchange(const LinearLayout& from, const LinearLayout& to, int element_bytes);

// The same exchange in several passes of at most `most_bytes` of scratch each, as far as some registers of
// both sides hold the same part of the tile in all threads; where that is not enough, with as little scratch
// as can be had. The caller compares `bytes` with what the device has.
SharedExchange in_passes(SharedExchange plan, int element_bytes, std::int64_t most_bytes);

// The lane bits that the hardware serves together when each accesses so many bytes of shared memory.
int lanes_together_bits(int bytes);

} // namespace kiln::gpu
