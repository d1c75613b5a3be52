// Plans the cheapest way to bring a tile from one layout into another.
//
// A plan is data that a code generator emits directly.
//
// Both layouts say which element each place (register, lane, warp) holds, and both reach every element of the
// tile. A destination place may take its element from any source place that holds it. So a plan is a solution
// of from(source) = to(destination) over GF(2), and its kind depends on which solutions there are (Zhou et
// al., arXiv 2505.23819, section 5.4):
//
//     the source may be            the plan is
//     in the same place            Nothing
//     in the same lane and warp    RegisterMoves    renamed registers, no instruction
//     in the same warp             WarpShuffles     shfl.idx, with selects before and after
//     anywhere                     SharedExchange   stores, a barrier and loads, free of bank conflicts
//
// All threads of a block execute a plan together, for the whole tile. A register holds one element.
#pragma once

#include <kiln/jit/gpu/layout/layouts.h>
#include <kiln/jit/gpu/layout/linear_layout.h>

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace kiln::gpu {

// A number that each thread has: the exclusive or of a constant and of one column for each set bit of its
// lane number and of its warp number. Missing columns are zero.
struct ThreadFunction {
  std::uint32_t constant = 0;
  std::vector<std::uint32_t> lane, warp;

  std::uint32_t operator()(std::uint32_t lane_id, std::uint32_t warp_id) const;
  std::uint32_t bits() const; // all bits that the number of any thread may have
  bool is_constant() const;   // whether it is the same in all threads
  bool is_lane() const;       // whether it is the lane number itself
};

// Every thread has each element that it needs in the register where it needs it.
struct Nothing {};

// Every thread has the elements that it needs: destination register r is source register `source[r]`.
struct RegisterMoves {
  std::vector<int> source;
};

// Every warp has the elements that it needs. A shuffle transfers one value for each lane, so lanes receive
// values in *slots* before these become registers. In each step, every lane offers a register, whose number
// may depend on the lane, and takes what another lane offers:
//
//     for register r:     offer[r] = source[r ^ source_flip(lane, warp)]
//     for slot, round:    step = steps[slot * rounds + round]
//                         got[slot][round] = step.moves ? shfl.idx(offer[step.offered],
//                                                                  source_lane(lane, warp) ^ step.lane_flip)
//                                                       : offer[step.offered]
//     for register r:     destination[r] = got[slot_of[r] ^ slot_flip(lane, warp)][kept_round(lane, warp)]
//
// A flip of register numbers is a network of selects: for each bit that the flip may have, each pair of
// registers that differ in this bit is swapped in some threads. A flip that is the same in all threads costs
// nothing. If several lanes need different registers of the same lane, `slot_flip` lets them fill different
// slots in the same step, so that a transpose of 2^n registers takes 2^n shuffles and no more. Only if a lane
// has no other slot to fill are several rounds needed; each lane then keeps what it received in one of them.
// An element of 8 bytes takes two shuffles, and a smaller one takes one.
struct WarpShuffles {
  struct Step {
    int offered = 0;   // a register, after source_flip
    int lane_flip = 0; // of the number of the lane that is read
    bool moves = true; // false: every lane takes its own offer, without a shuffle
  };
  int rounds = 1;
  std::vector<Step> steps;
  std::vector<int> slot_of; // by destination register; registers that hold copies share a slot
  ThreadFunction source_flip, source_lane, slot_flip, kept_round;

  int shuffles() const; // the number of steps that move
  int selects() const;  // for both flips and for the choice of a round
};

// The tile goes through shared memory, each element once.
//
//     for pass:    (stores and loads are split, in order, into `passes` parts of equal length)
//       if (lane & silent.lanes) == 0 and (warp & silent.warps) == 0:
//         for access in stores:  vector[p] = source[access.registers[p]]
//                                st.shared [base + (store_offset(lane, warp) ^ access.offset)], vector
//       barrier: of the warp if within_warp, else of the block
//       for access in loads:     ld.shared vector, [base + (load_offset(lane, warp) ^ access.offset)]
//                                destination[access.registers[p]] = vector[p]
//       barrier, if there is another pass
//     destination[r] = destination[copy_of[r]]
//
// Offsets are in bytes and aligned to the vector; `base` must be aligned to 128 bytes. Before the scratch
// memory is used again, another barrier of the same kind is needed. If the offset of a thread and that of an
// access have no bit in common, ^ equals +, which the instruction itself can do: see ThreadFunction::bits.
struct SharedExchange {
  struct Access {
    std::uint32_t offset = 0;
    std::vector<int> registers; // of the elements of a vector, in the order of memory
  };
  LinearLayout memory;      // offset in elements (and number of the pass, if there are several) -> element
  bool within_warp = false; // a warp loads only what it has stored itself
  std::int64_t bytes = 0;   // of scratch memory
  int passes = 1;
  int store_elements = 1, load_elements = 1; // of one vector
  Copies silent;                             // threads with one of these bits set do not store
  ThreadFunction store_offset, load_offset;
  std::vector<Access> stores, loads;
  std::vector<int> copy_of; // by destination register: the loaded register with the same element
};

using Conversion = std::variant<Nothing, RegisterMoves, WarpShuffles, SharedExchange>;

// The estimated time of a plan for one warp. A shuffle, or one pass over the banks of shared memory, counts
// 1. A select counts 1/2, because twice as many lanes execute selects at a time. Each exchange through shared
// memory adds a barrier of the warp (16) or of the block (64), and a second latency of shared memory (16).
// This is a heuristic from published throughputs, without a measurement.
double cost(const WarpShuffles& plan, int element_bytes);
double cost(const SharedExchange& plan, int element_bytes);

// The cheapest plan that brings a tile of elements of 1, 2, 4 or 8 bytes from one layout into another. Both
// layouts reach every element of the same tile and have the same numbers of lanes and warps. If several
// passes can keep the scratch memory within `most_scratch_bytes`, they do: see in_passes.
Conversion plan_conversion(const LinearLayout& from, const LinearLayout& to, int element_bytes,
                           std::int64_t most_scratch_bytes = std::int64_t{1} << 62);

// The planners that plan_conversion chooses from. Each has a result only if its kind of plan is possible; an
// exchange through shared memory always is.
bool is_nothing(const LinearLayout& from, const LinearLayout& to);
std::optional<RegisterMoves> plan_register_moves(const LinearLayout& from, const LinearLayout& to);
// Takes at most `max_rounds` shuffles for each slot.
std::optional<WarpShuffles> plan_shuffles(const LinearLayout& from, const LinearLayout& to,
                                          int max_rounds = 4);
// This is the "optimal swizzling" of section 5.4, extended. The low bits of an offset, which make up a
// vector, are registers on both sides, or beyond those on one side. The bits above 128 bytes are chosen
// outside of the span of the lanes that the hardware serves together on either side (8 lanes that access 16
// bytes each, 16 lanes for 8 bytes, else 32 lanes). Two subspaces of at most the size of a row of banks
// always have a common complement, so no access has a bank conflict.
SharedExchange plan_shared_exchange(const LinearLayout& from, const LinearLayout& to, int element_bytes);

// The same exchange in several passes that need at most `most_bytes` of scratch memory. The tile can be split
// along bits that registers alone decide on both sides; if there are too few of them, the result needs more,
// but as little as possible. The caller compares `bytes` with what the device has.
SharedExchange in_passes(SharedExchange plan, int element_bytes, std::int64_t most_bytes);

// The logarithm of the number of lanes that the hardware serves together when each accesses `bytes` bytes of
// shared memory.
int lanes_together_bits(int bytes);

} // namespace kiln::gpu
