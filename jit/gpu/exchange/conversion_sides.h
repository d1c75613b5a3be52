// Brings the bases of the source and the destination of a conversion into one form, which all planners use.
#pragma once

#include <kiln/jit/gpu/layout/linear_layout.h>

#include <cstdint>
#include <vector>

namespace kiln::gpu {

using Columns = std::vector<std::uint64_t>;

// The bases of a layout by input dimension, as flattened elements.
struct Sides {
  Columns registers, lanes, warps;
};
struct BothSides {
  Sides from, to;
  int tile_bits = 0;
};

// Checks that both layouts are of the same tile and of as many threads. Elements are flattened in the order
// of the dimensions of `from`.
BothSides both_sides(const LinearLayout& from, const LinearLayout& to);

// The exclusive or of the columns whose bits are set.
std::uint64_t combined(const Columns& columns, std::uint64_t bits);

// Columns without those that depend on earlier ones.
struct Compacted {
  std::vector<int> kept; // the indices of the columns that are left
  Columns number;        // for each column, the combination of the columns left that equals it
};
Compacted compacted(const Columns& columns);

} // namespace kiln::gpu
