// How a tile in registers is reduced along one axis: in threads, between lanes, between warps.
//
// The elements along the axis that a thread holds are combined first, which leaves one value for each
// register of the sliced layout. Then every direction of places (an exclusive or with some lane bits, and
// with some register bits) that stays at the same element of the result and leads to elements which have not
// been combined yet doubles what each value covers. What then is missing along the axis lies in other warps,
// and is exchanged by a conversion. Copies are never combined twice, whatever the layout.
//
// The operation must be associative and commutative as far as its rounding allows. All combinations are
// balanced trees over exclusive ors, so that all copies of a result agree to the last bit if the operation
// commutes to the last bit, as floating-point addition does.
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
// The result is in layout `result`, which is sliced(layout, axis): all threads along the axis know it.
struct Reduction {
  struct Pair {
    int into, from;
  };
  struct LaneStep {
    int lane_mask;     // of shfl.xor
    int register_flip; // zero in layouts that people write
  };
  // What warps hold beside each other becomes registers of each thread: from `partial` to `gathered`, which
  // both have an output side "part" beside those of the result.
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

  std::int64_t scratch_bytes() const; // of shared memory, for one value of `element_bytes` for each element
};

// The plan for a layout with sides register, lane, warp -> dim0 .. that reaches every element, along `axis`,
// with values of 1, 2, 4 or 8 bytes. Reductions of several values (with an index, say) run it on each of
// them.
Reduction plan_reduction(const LinearLayout& layout, int axis, int element_bytes);

} // namespace kiln::gpu
