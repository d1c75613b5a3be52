// Plans how a tile in registers is reduced along one axis.
//
// First, each thread combines the elements along the axis that it holds, which leaves one value for each
// register of the sliced layout. Then come steps between lanes. In a step, a lane takes the value of the lane
// whose number differs by some bits, from a register whose number may differ too. A step is possible if this
// leads to the same element of the result, and useful if it leads to elements of the tile that have not been
// combined yet: it doubles the number of elements that each value covers. Elements along the axis that are
// still missing then are in other warps, and a conversion exchanges them. No element is combined twice, even
// if the layout has copies of it.
//
// The operation must be associative and commutative, apart from its rounding. Values are combined in balanced
// trees in which partners differ by an exclusive or. So all copies of a result agree to the last bit if the
// operation commutes to the last bit, as floating-point addition does.
#pragma once

#include <kiln/jit/gpu/exchange/conversion.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace kiln::gpu {

//     for pair in in_thread:         value[into] = combine(value[into], value[from])
//     for result register r:         part[r] = value[holder[r]]
//     for step in lanes:             for all r at a time:
//                                      other[r] = shfl.xor(part[r ^ step.register_flip], step.lane_mask)
//                                      part[r] = combine(part[r], other[r])
//     if there are `warps`:          value = converted(part, warps->exchange)
//                                    then as above, with warps->in_thread and warps->holder
// The layout of the result is `result`, which is sliced(layout, axis): all threads along the axis know the
// result.
struct Reduction {
  struct Pair {
    int into, from;
  };
  struct LaneStep {
    int lane_mask;     // of shfl.xor
    int register_flip; // zero in all usual layouts
  };
  // Gathers the partial results of several warps in registers of each thread: a conversion from `partial` to
  // `gathered`, which both have an output dimension "part" in addition to those of the result.
  struct WarpExchange {
    LinearLayout partial, gathered;
    Conversion exchange;
    std::vector<Pair> in_thread;
    std::vector<int> holder; // by result register
  };

  std::vector<Pair> in_thread;
  std::vector<int> holder; // by result register
  std::vector<LaneStep> lanes;
  std::optional<WarpExchange> warps;
  LinearLayout result;

  std::int64_t scratch_bytes() const; // of shared memory, to reduce one value for each element
};

// The plan to reduce along `axis` a tile whose layout maps register, lane and warp to dim0 .. and reaches
// every element. Values have 1, 2, 4 or 8 bytes. A reduction of several values for each element (a maximum
// and its index, say) executes the same plan for each of them.
Reduction plan_reduction(const LinearLayout& layout, int axis, int element_bytes);

} // namespace kiln::gpu
