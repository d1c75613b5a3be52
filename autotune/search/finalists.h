// Measures the best trials of a search again, in time that is reserved for this.
#pragma once

#include <kiln/autotune/search/search.h>

namespace kiln::tune {

// Returns the seconds of the budget to reserve for confirming, at most 60 % of it.
double reserved_seconds(const SearchResult& so_far, const Measurer& measurer, const Budget& budget);

// Measures as many finalists again as there is time for, at least the fastest trial and the seed, and makes
// the fastest of them the best. If the measurer runs out of time or is interrupted, the best is a trial that
// is not confirmed (SearchResult::is_confirmed).
void confirm(SearchResult& result, Measurer& measurer, const Budget& budget,
             const std::function<double()>& elapsed);

} // namespace kiln::tune
