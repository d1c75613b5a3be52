// Both sides of a conversion in the same terms; shared by the planners.
#pragma once

#include <kiln/jit/gpu/layout/linear_layout.h>

#include <cstdint>
#include <vector>

namespace kiln::gpu {

using Columns = std::vector<std::uint64_t>;

// A layout's bases by side, as flattened elements.
struct Sides {
  Columns registers, lanes, warps;
};
struct BothSides {
  Sides from, to;
  int tile_bits = 0;
};

// Checks that the layouts fit each other; the tile is flattened as `from` does it.
BothSides both_sides(const LinearLayout& from, const LinearLayout& to);

// The exclusive or of the columns whose bits are set.
std::uint64_t combined(const Columns& columns, std::uint64_t bits);
// Without the columns that depend on earlier ones: which are left, and each register in their terms.
struct Compacted {
  std::vector<int> kept; // columns
  Columns number;        // by column: the combination of kept ones that it is
};
Compacted compacted(const Columns& columns);

} // namespace kiln::gpu
