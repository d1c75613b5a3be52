// Helion's search, to compare with: LFBO tree search as PyTorch Helion publishes it
// (surrogate_pattern_search.py), with its defaults.
//
// It measures 100 random points, then moves 5 copies from the best of them: each makes many neighbours by
// letting random trees of a forest choose, knob by knob on the way of its point, the value that the tree
// likes best; the forest, which learned to tell the fastest tenth, and a penalty for points that fall in the
// same leaves, choose a tenth of them to measure. A copy that gained nothing in two rounds ends.
//
// Where Helion would end, this begins again from the best points that are known, so that it can be compared
// at any number of trials. With a batch it learns after so many trials: it begins with two batches instead of
// 100 points, and each round the copies' neighbours compete for the places of one batch.
#pragma once

#include <kiln/autotune/search/strategy.h>

namespace kiln::tune {

// `batch` 0: as published.
std::unique_ptr<Strategy> make_helion(SearchContext context, int batch);

} // namespace kiln::tune
