// Declares the strategies with which the learned strategy is compared.
#pragma once

#include <kiln/autotune/search/strategy.h>

namespace kiln::tune {

std::unique_ptr<Strategy> make_random(SearchContext context);
std::unique_ptr<Strategy> make_grid(SearchContext context);
std::unique_ptr<Strategy> make_annealing(SearchContext context);
std::unique_ptr<Strategy> make_annealing1(SearchContext context); // a single chain, one trial per batch
std::unique_ptr<Strategy> make_genetic(SearchContext context);
std::unique_ptr<Strategy> make_autotvm(SearchContext context);

} // namespace kiln::tune
