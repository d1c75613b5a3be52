// Defines TensorShard, which describes the part of a whole tensor that a rank has.
//
//   // Rank 1 of 2 of a gated MLP with 512 hidden features. The rank's tensor [128, 512] has columns 256 to
//   // 512 of the gate, followed by columns 256 to 512 of up.
//   TensorShard up{.extents = {128, 1024}, .axis = 1, .ranges = {{{256, 512}, 0}, {{768, 1024}, 256}}};
//
// The rank's tensor has the extents of the whole tensor, except along `axis`, where it has the indices of the
// ranges, and possibly others.
#pragma once

#include <kiln/collectives/schedule/shards.h>
#include <kiln/dsl/api.h>

#include <cstdint>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

struct TensorShard {
  struct Range {
    Rows whole;           // indices along `axis` of the whole tensor, end excluded
    std::int64_t own = 0; // the index along `axis` of the rank's tensor at which they begin
    bool saved = true;    // false: another rank has the same indices, and saves them
  };
  std::vector<std::int64_t> extents = {}; // of the whole tensor, which has at least one axis
  int axis = 0;                           // along which the tensor is divided: 0, or also 1 for a matrix
  std::vector<Range> ranges = {};         // empty if the rank has nothing
};

} // namespace kiln::collectives
KILN_API_END
