// Defines TensorShard, which says which part of a whole tensor a rank has.
//
//   // Rank 1 of 2 of an MLP with 512 hidden features: its columns of the gate and, side by side with them,
//   // of the rest.
//   TensorShard up{.extents = {128, 1024}, .axis = 1, .ranges = {{{256, 512}, 0}, {{768, 1024}, 256}}};
//
// The rank's tensor has the whole tensor's extents, except along the axis, where it has at least the indices
// of the ranges.
#pragma once

#include <kiln/collectives/shards.h>
#include <kiln/dsl/api.h>

#include <cstdint>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

struct TensorShard {
  struct Range {
    Rows whole;           // indices along the axis of the whole tensor
    std::int64_t own = 0; // where they begin along the axis of the rank's tensor
    bool saved = true;    // false: another rank has the same indices, and saves them
  };
  std::vector<std::int64_t> extents = {}; // of the whole tensor, of at least one axis
  int axis = 0;                           // 0, or 1 of a matrix
  std::vector<Range> ranges = {};         // none if the rank has nothing
};

} // namespace kiln::collectives
KILN_API_END
