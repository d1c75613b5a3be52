// Explains why a config is fast, by a model fitted to the trials of a run.
#pragma once

#include <kiln/autotune/search/result.h>
#include <kiln/autotune/space/space.h>

#include <string>
#include <utility>
#include <vector>

namespace kiln::tune {

// Returns for each knob the factor that its value in `point` contributes to the time, compared with the
// average of the configs that were tried, the largest effect first. Boosted trees are fitted to the
// logarithms of the trials' times, and their prediction is split into one contribution for each knob
// (Saabas's method). The result is empty if too few trials were measured to fit a model.
std::vector<std::pair<std::string, double>> knob_factors(const SearchResult& search,
                                                         const std::vector<Knob>& knobs, const Point& point);

} // namespace kiln::tune
