// Provides kernels with random sizes, each in a right and a wrong version, for the tests of verdicts.
#pragma once

#include "measured.h"

#include <kiln/autotune/measure/checker.h>
#include <kiln/autotune/random.h>

#include <functional>
#include <string>
#include <vector>

namespace kiln::test {

struct VerdictCase {
  std::string name;
  std::vector<tune::Argument> arguments;
  Config seed, other;
  // Returns the text of the kernel, in its wrong version or not.
  std::function<std::string(const Config&, bool wrong)> ir;
  std::vector<tune::OutputCheck> outputs = {};
};

// Returns one case of each kind, with sizes, tiles and faults that depend on `random`.
std::vector<VerdictCase> verdict_cases(tune::Random& random);
// Those of them that are in verdict_hard_kernels.cpp.
std::vector<VerdictCase> hard_verdict_cases(tune::Random& random);

} // namespace kiln::test
