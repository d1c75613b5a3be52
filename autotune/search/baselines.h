// The strategies that the learned one is compared with.
#pragma once

#include <kiln/autotune/search/strategy.h>

namespace kiln::tune {

std::unique_ptr<Strategy> make_random(SearchContext context);
std::unique_ptr<Strategy> make_grid(SearchContext context);
std::unique_ptr<Strategy> make_annealing(SearchContext context);
std::unique_ptr<Strategy> make_annealing1(SearchContext context); // one chain, one trial at a time
std::unique_ptr<Strategy> make_genetic(SearchContext context);
std::unique_ptr<Strategy> make_autotvm(SearchContext context);

} // namespace kiln::tune
