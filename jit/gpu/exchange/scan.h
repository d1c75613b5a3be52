// How a tile in registers is scanned along one axis: every element becomes the combination of itself and all
// before it.
//
// Bit by bit of the coordinate along the axis, from the lowest: blocks of 2^b elements, whose elements all
// know the block's total and their own prefix in it, pair up. In the upper block each prefix takes the lower
// total in front; the totals combine. A partner is an exclusive or away, in some register of this or another
// lane; where it is in another warp, consecutive bits of that kind are gathered at once by a conversion.
// Layouts whose copies or orders are odd need nothing special, and the operation needs to be associative
// only.
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
//       Gather:  parts = converted(total, exchange)     block i's: parts[r + (i << register bits)]
//                prefix[r] = combine(parts of all i < upper[r], prefix[r])
//                total[r] = combine(parts of all i)
//     the result is prefix, in the layout of the values
// A reverse scan is the same with lower and upper exchanged: not upper[r], and swapped operands.
struct Scan {
  struct Flip {
    int lane_mask, register_flip;
  };
  struct Gather {
    LinearLayout partial, gathered; // to the totals' coordinates: the axis without its lowest bits
    Conversion exchange;
  };
  struct Stage {
    int bit, bits; // of the coordinate along the axis; a flip has one
    std::variant<Flip, Gather> how;
  };
  std::vector<Stage> stages;
  ThreadFunction coordinate;                      // along the axis, as far as lane and warp say it
  std::vector<std::uint32_t> register_coordinate; // and as far as the register does

  std::int64_t scratch_bytes() const; // of shared memory; stages may share it, with a barrier between them
};

// The plan for a layout with sides register, lane, warp -> dim0 .. that reaches every element, along `axis`,
// with values of 1, 2, 4 or 8 bytes.
Scan plan_scan(const LinearLayout& layout, int axis, int element_bytes);

} // namespace kiln::gpu
