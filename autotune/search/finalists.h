// Measures the best trials of a search again, in time that is reserved for this.
#pragma once

#include <kiln/autotune/search/search.h>

namespace kiln::tune {

// Returns the seconds of the budget to reserve for confirming. Returns 0 if confirming only the best would
// take most of the budget; the search then uses all of it, and its result is not confirmed.
double reserved_seconds(const SearchResult& so_far, const Measurer& measurer, const Budget& budget);

// Measures as many finalists again as there is time for, and makes the fastest of them the best. Changes
// nothing if there is no time.
void confirm(SearchResult& result, Measurer& measurer, const Budget& budget,
             const std::function<double()>& elapsed);

} // namespace kiln::tune
