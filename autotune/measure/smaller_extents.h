// Chooses smaller extents for the arrays of a launch, so that configs are also tried on other sizes: a little
// smaller ones, or such that the last tile along an axis is about a quarter full.
//
// Equal extents stay equal. Extents may be related: rows of 256 columns have 8 scales, one for each 32
// columns; an enlarged array has twice the extent of its source. Nothing says so but the shapes, so that an
// extent is taken for a multiple of another if it is divisible by that, and two views of equal rank have the
// one where the other has the other, with equal or divisible extents along all other axes. A third view that
// has both along different axes shows that they are independent: a bias of 64 elements next to 1024 rows of
// 64.
//
//   f32[500, 256], f32[500, 8]  ->  f32[497, 224], f32[497, 7]
//   f32[4000], f32[2000]        ->  f32[3994], f32[1997]
//   f32[4096, 64] with {BN = 512}:  f32[3709, 64], a multiple of 512 and 125 elements
#pragma once

#include <kiln/autotune/measure/workload.h>

#include <map>
#include <vector>

namespace kiln::tune {

// Returns a smaller extent for each extent of a view; others, and those of views that must keep their shape
// (Argument::as_given) and all that are related to them, stay as they are. With `config`, whose numbers may be
// extents of tiles, the last tile becomes short: the largest of these that fits into an extent counts, and the
// extent stays as it is if none does.
std::map<std::int64_t, std::int64_t> smaller_extents(const std::vector<Argument>& arguments,
                                                     const Config* config = nullptr);

} // namespace kiln::tune
