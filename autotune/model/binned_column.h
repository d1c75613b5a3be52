// Quantises a column of training rows into bins, so that its best split can be found with a histogram.
#pragma once

#include <kiln/autotune/model/boosted_trees.h>

namespace kiln::tune {

inline constexpr std::uint8_t missing_bin = 255;

struct BinnedColumn {
  std::vector<std::uint8_t> bins; // the bin of each row; missing_bin: no value
  std::vector<float> cuts;        // values below cuts[b] are in bin b or lower
  std::size_t steps() const { return cuts.size() + 1; }
};

// Makes one bin per distinct value if there are at most `most`, else bins between quantiles.
BinnedColumn bin_column(const Rows& rows, std::size_t column, int most);

} // namespace kiln::tune
