// A column of training rows in few steps, so that the best cut of it is found by counting.
#pragma once

#include <kiln/autotune/model/boosted_trees.h>

namespace kiln::tune {

inline constexpr std::uint8_t missing_bin = 255;

struct BinnedColumn {
  std::vector<std::uint8_t> bins; // the step of each row; missing_bin: no value
  std::vector<float> cuts;        // a value below cuts[b] is in step b or lower
  std::size_t steps() const { return cuts.size() + 1; }
};

// A step for each value where there are at most `most`, else one for each quantile.
BinnedColumn bin_column(const Rows& rows, std::size_t column, int most);

} // namespace kiln::tune
