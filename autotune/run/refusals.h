// Describes the configs of a run that failed, and the ways to declare that their outputs are right.
#pragma once

#include <kiln/autotune/run/tuner.h>

#include <string>
#include <vector>

namespace kiln::tune {

// Returns a sentence on the first config that failed, the default if that did, with its error; empty if none
// has.
std::string first_failure(const Tuning& tuning);

// Returns how many configs were refused because of their outputs, the first reason, and what to declare if
// such outputs are right; empty if none was.
std::string refusals_of(const Tuning& tuning);

// Returns warnings that nothing is compared, and that there was no time to verify the best config.
std::vector<std::string> warnings_of(const Tuning& tuning);

} // namespace kiln::tune
