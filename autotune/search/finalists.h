// The end of a search: the best trials are measured again, in time that is kept for it.
#pragma once

#include <kiln/autotune/search/search.h>

namespace kiln::tune {

// Of the budget's seconds those that confirming should have, as it stands; 0 where confirming even the best
// would take most of them: then the search uses them all, and its result is not confirmed.
double reserved_seconds(const SearchResult& so_far, const Measurer& measurer, const Budget& budget);

// Measures as many finalists again as there is time for, and makes the fastest of them the best. Nothing
// changes where there is no time.
void confirm(SearchResult& result, Measurer& measurer, const Budget& budget,
             const std::function<double()>& elapsed);

} // namespace kiln::tune
