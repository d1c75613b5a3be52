// Declares the search of Helion's autotuner, with which the learned search is compared.
//
// Helion's search is the LFBO tree search that PyTorch Helion publishes (surrogate_pattern_search.py), with
// its defaults.
//
// It measures 100 random points and starts 5 copies from the best of them. Each copy generates many
// neighbours: a random tree of a forest chooses, for one knob after another along its path for the point, the
// value that it predicts to be best. The forest is trained to recognise the fastest tenth. It selects a tenth
// of the neighbours to measure, with a penalty for points that fall into the same leaves. A copy that gained
// nothing in two rounds ends.
//
// Where Helion ends, this starts again from the best known points, so that it can be compared at any number
// of trials. With `batch` it learns after that many trials: it starts with two batches instead of 100 points,
// and in each round the neighbours of all copies compete for one batch.
#pragma once

#include <kiln/autotune/search/strategy.h>

namespace kiln::tune {

// `batch` 0: as published.
std::unique_ptr<Strategy> make_helion(SearchContext context, int batch);

} // namespace kiln::tune
