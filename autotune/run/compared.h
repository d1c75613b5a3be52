// Describes what a verification compared.
#pragma once

#include <kiln/autotune/space/trial.h>

#include <string>
#include <vector>

namespace kiln::tune {

// Returns one line: "parameter 2: 500 of 1000 elements (50 %), closest to its bound: element 7, which is
// ...".
std::string text_of(const OutputComparison& output);

// Returns a sentence for each output of which little was compared, with the share.
std::vector<std::string> warnings_of(const std::vector<OutputComparison>& outputs);

} // namespace kiln::tune
