// Plans how a tile in registers is scanned along one axis.
//
// Every element becomes the combination of itself and of all elements before it.
//
// The plan goes through the bits of the coordinate along the axis, from the lowest. At bit b the axis
// consists of blocks of 2^b elements, in which every element knows the total of its block and its own prefix
// within the block. Now each two neighbouring blocks become one. In the upper block, the total of the lower
// block is combined with each prefix, from the left; in both, the two totals are combined. The partner of an
// element is an exclusive or away, so it is in some register of the same or of another lane. If it is in
// another warp, a conversion gathers totals for all consecutive bits of this kind at once. Unusual orders and
// copies in a layout need no special treatment, and the operation must be associative but need not commute.
#pragma once

#include <kiln/jit/gpu/exchange/conversion.h>

#include <cstdint>
#include <variant>
#include <vector>

namespace kiln::gpu {

//     prefix[r] = total[r] = value[r]
//     for stage in stages:
//       upper[r] = (register_coordinate[r] ^ coordinate(lane, warp)) >> stage.bit & (2^stage.bits - 1)
//       Flip:    other[r] = shfl.xor(total[r ^ register_flip], lane_mask)     lane_mask 0: no shuffle
//                prefix[r] = upper[r] ? combine(other[r], prefix[r]) : prefix[r]
//                total[r] = upper[r] ? combine(other[r], total[r]) : combine(total[r], other[r])
//       Gather:  parts = converted(total, exchange)     of block i: parts[r + (i << register bits)]
//                prefix[r] = combine(parts of all i < upper[r], prefix[r])
//                total[r] = combine(parts of all i)
//     the result is prefix, in the layout of the values
//
// A reverse scan is the same with lower and upper exchanged: `not upper[r]`, and swapped operands.
struct Scan {
  struct Flip {
    int lane_mask, register_flip;
  };
  struct Gather {
    LinearLayout partial, gathered; // of the totals, whose axis lacks its lowest bits
    Conversion exchange;
  };
  struct Stage {
    int bit, bits; // of the coordinate along the axis: the lowest, and how many; a flip has one
    std::variant<Flip, Gather> how;
  };
  std::vector<Stage> stages;
  ThreadFunction coordinate; // the part of the coordinate along the axis that lane and warp decide
  std::vector<std::uint32_t> register_coordinate; // the part that each register decides

  std::int64_t scratch_bytes() const; // of shared memory; stages may share it, with a barrier between them
};

// The plan to scan along `axis` a tile whose layout maps register, lane and warp to dim0 .. and reaches every
// element. Values have 1, 2, 4 or 8 bytes.
Scan plan_scan(const LinearLayout& layout, int axis, int element_bytes);

} // namespace kiln::gpu
