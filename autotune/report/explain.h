// Why a config is fast, by what the trials of a run taught.
#pragma once

#include <kiln/autotune/search/result.h>
#include <kiln/autotune/space/space.h>

#include <string>
#include <utility>
#include <vector>

namespace kiln::tune {

// What each knob's value does to the time of `point`, as a factor over what was tried on average, largest
// effect first: boosted trees are fitted to the logarithms of the trials' times, and what they add for each
// knob is told apart (Saabas). Empty where too few trials were measured to learn from.
std::vector<std::pair<std::string, double>> knob_factors(const SearchResult& search,
                                                         const std::vector<Knob>& knobs, const Point& point);

} // namespace kiln::tune
